"""`anyshot bench`: the figures are there, mean what they say, and are those that were printed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from anyshot import make_experiment
from anyshot.runs import timing
from anyshot.runs.online import OnlineJob
from tests.support.command_line import SMALL, Anyshot

pytestmark = pytest.mark.medium


@pytest.mark.parametrize(
    ("learner", "gradient"),
    [
        ("ftml-vs", "meta-gradient"),
        ("anyshot", "meta-gradient"),  # which observes labels between updates
        pytest.param("a-gem", "gradient", marks=pytest.mark.slow),
    ],
)
def test_the_figures_are_printed_and_written(
    learner: str, gradient: str, here: Path, anyshot_here: Anyshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {name: value for name, value in SMALL.items() if learner != "anyshot" or name != "learner.meta_rate"}
    small = make_experiment("sinusoid", learner, settings=settings)
    monkeypatch.setattr(timing, "make_timing_experiment", lambda name, learner: small)
    started = time.monotonic()
    words = ["--preset", "sinusoid", "--learner", learner, "--repeats", "2", "--json", "bench.json"]
    code, printed, _ = anyshot_here("bench", *words)
    took = time.monotonic() - started
    assert code == 0
    figures = json.loads(Path("bench.json").read_text())
    assert f"{figures['update_ms']:.2f} ms" in printed
    assert f"{figures['last_step_ms']:.2f} ms, {figures['last_step_to_update']:.2f} times the {gradient}\n" in printed
    assert figures["last_step_to_update"] == pytest.approx(figures["last_step_ms"] / figures["update_ms"])
    # Everything compared was done within the call, and each of these at least twice.
    assert 0 < figures["compile_update_s"] + figures["compile_online_s"] < took
    assert all(0 < figures[f"{name}_ms"] < 1e3 * took / 2 for name in ("update", "first_step", "last_step"))
    assert figures["update_memory_mb"] > 0
    assert figures["environment"]["jax"] == jax.__version__
    assert (figures["preset"], figures["learner"]) == ("sinusoid", learner)
    assert printed.endswith("figures: bench.json\n")


def test_the_paper_s_sizes_need_no_data(no_data: Path) -> None:
    experiment = timing.make_timing_experiment("rainbow-mnist", "ftml-vs")
    assert experiment.tasks.x.shape == (56 * 900, 28, 28, 3)
    assert experiment.record.learner.network == {"kind": "conv4", "channels": 32, "stride": 2, "precision": "float32"}


def test_both_ends_of_the_stream_are_measured_in_the_middle_of_a_task() -> None:
    job = OnlineJob(make_experiment("sinusoid"))
    stream = job.load_data()
    early, late = timing.make_states(job.loop, stream, job.keys["start"])
    for state, position, seen in ((early, 0, 0), (late, 99, 100)):
        assert (int(state.position), int(state.round), int(state.buffer.seen_count)) == (position, 1, seen)
    assert np.asarray(late.buffer.received).tolist() == [stream.capacity] * 99 + [stream.capacity // 16 * 2]
