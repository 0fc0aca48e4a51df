"""`anyshot bench`: the figures are there, mean what they say, and are those that were printed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from test_run_online import SETTINGS

from anyshot.cli import bench
from anyshot.runs import timing
from anyshot.runs.experiment import Experiment
from anyshot.runs.presets import preset


def test_the_figures_are_printed_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "preset", lambda name: SETTINGS)  # whose loop other tests have compiled
    out = tmp_path / "bench.json"
    started = time.monotonic()
    bench.main(["--preset", "sinusoid", "--repeats", "2", "--json", str(out)])
    took = time.monotonic() - started
    printed = capsys.readouterr().out
    figures = json.loads(out.read_text())
    assert f"{figures['update_ms']:.2f} ms" in printed
    assert f"{figures['last_step_ms']:.2f} ms, {figures['last_step_to_update']:.2f} times the meta-gradient" in printed
    assert figures["last_step_to_update"] == pytest.approx(figures["last_step_ms"] / figures["update_ms"])
    # Everything compared was done within the call, and each of these at least twice. (What has been compiled before in
    # this process compiles faster than a step runs.)
    assert 0 < figures["compile_update_s"] + figures["compile_online_s"] < took
    assert all(0 < figures[f"{name}_ms"] < 1e3 * took / 2 for name in ("update", "first_step", "last_step"))
    assert figures["update_memory_mb"] > 0
    assert figures["environment"]["jax"] == jax.__version__
    assert printed.endswith(f"figures: {out}\n")


def test_both_ends_of_the_stream_are_measured_in_the_middle_of_a_task() -> None:
    experiment = Experiment(preset("sinusoid"), "ftml-vs", 0)
    tasks = experiment.load_tasks()
    loop, stream = experiment.loop(tasks), experiment.stream(tasks)
    early, late = timing.states(loop, stream, experiment.keys()["start"])
    for state, position, seen in ((early, 0, 0), (late, 99, 100)):
        assert (int(state.position), int(state.round), int(state.buffer.seen_count)) == (position, 1, seen)
    assert np.asarray(late.buffer.received).tolist() == [stream.capacity] * 99 + [stream.capacity // 16 * 2]
