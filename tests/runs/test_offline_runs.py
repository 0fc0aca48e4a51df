"""Offline runs in folders: stopped and resumed, what they find, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import anyshot
from anyshot.errors import InputError, RunError
from anyshot.learners import Learner
from anyshot.offline import OfflineProtocol, evaluate
from anyshot.offline.split import Draw
from anyshot.runs.offline import OfflineJob
from anyshot.runs.presets import PRESETS, preset
from anyshot.runs.reading import read_run
from tests.support.command_line import run_here

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.slow]

SMALL = {
    "protocol.steps": 800,
    "protocol.steps_per_trial": 100,
    "protocol.test_tasks": 5,
    "protocol.validation_episodes": 10,
    "protocol.standard_error": 5.0,
    "learner.meta_rate": 3e-3,
}
OFFLINE = [name for name in PRESETS if isinstance(preset(name).protocol, OfflineProtocol)]


def make(learner: str = "maml-vs", seed: int = 1, **changes: Any) -> anyshot.Experiment:
    settings = SMALL | {f"protocol.{name}": value for name, value in changes.items()}
    if learner.startswith("maml"):
        settings |= {"learner.inner_steps": 2, "learner.inner_rate": 0.1}
    return anyshot.make_experiment("sinusoid-offline", learner, seed, settings)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("offline") / "whole"
    anyshot.run(make(), folder, progress=False)
    return folder


@pytest.mark.medium
def test_a_run_that_is_stopped_and_goes_on_ends_with_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    for moment in ("compiled", "event", "testing", "tested"):

        def stop(what: str, news: Any, moment: str = moment) -> None:
            if what == moment:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            anyshot.run(make(), tmp_path, progress=False, observe=stop, checkpoint_seconds=0.0)
    anyshot.run(make(), tmp_path, progress=False)
    for name in ("experiment.json", "events.jsonl", "summary.json"):
        assert (whole / name).read_bytes() == (tmp_path / name).read_bytes()


@pytest.mark.medium
def test_maml_vs_adapts_to_unseen_waves(whole: Path) -> None:
    """With ten shots the loss on unseen waves is far below that without any, and that of the best constant."""
    _, events, summary = read_run(whole)
    assert summary is not None
    assert summary.best_step <= summary.steps == 800
    trials = [event for event in events if event.kind == "trial"]
    assert [trial.step for trial in trials] == list(range(100, 801, 100))
    best = max(trials, key=lambda trial: trial.score)
    assert best.better
    assert best.step == summary.best_step
    losses = {score.shots: score.loss for score in summary.tests}
    tasks = make().tasks
    constant = float(np.mean([np.var(tasks.y[rows]) for rows in tasks.test_rows[80:85]]))
    assert list(losses) == [0, 1, 5, 10]
    assert losses[10] < 0.7 * losses[0]
    assert losses[10] < 0.7 * constant
    assert all(score.accuracy is None for score in summary.tests)  # a regression has none


@pytest.mark.medium
def test_what_is_loaded_is_the_state_that_did_best(whole: Path) -> None:
    run = anyshot.load_run(whole)
    _, _, summary = read_run(whole)
    job = OfflineJob(make())
    scores = evaluate(job.loop, Draw.test(job.load_data().test, job.protocol), run.state, job.keys["test"])
    np.testing.assert_allclose(scores.loss, [score.loss for score in summary.tests], rtol=1e-5)


@pytest.mark.medium
def test_learners_with_one_seed_are_tested_on_the_same_episodes() -> None:
    tests = []
    for name in ("maml", "mann"):
        job = OfflineJob(make(name, seed=4))
        draw = Draw.test(job.load_data().test, job.protocol)
        tests.append(eqx.filter_jit(draw.episode)(job.keys["test"], jnp.asarray(0), jnp.asarray(5)))
    assert eqx.tree_equal(*tests)


@pytest.mark.parametrize("name", OFFLINE)
def test_presets_have_room_for_early_stopping(name: str) -> None:
    protocol = preset(name).protocol
    assert protocol.rounds >= 10
    assert protocol.patience < protocol.rounds


class Diverging(Learner):
    """Its state is finite, but after an update its outputs are not."""

    @property
    def wants(self) -> Any:
        return frozenset({"episodes"})

    def init(self, key: Any) -> Any:
        return {"scale": jnp.ones(())}

    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return {"scale": jnp.asarray(1e200, state["scale"].dtype)}, {"loss": jnp.zeros(())}

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return query * state["scale"] ** 2


@pytest.mark.parametrize("validation_tasks", [10, 0])
def test_a_run_that_diverges_says_so_and_is_not_finished(tmp_path: Path, validation_tasks: int) -> None:
    """It is noticed at the first trial, or in the test."""
    usual = make(steps=100, validation_tasks=validation_tasks)
    with pytest.raises(RunError, match=r"not finite.*learner's update"):
        anyshot.run(anyshot.Experiment(usual.tasks, Diverging(), usual.protocol), tmp_path, progress=False)
    assert not (tmp_path / "summary.json").exists()
    assert (tmp_path / "checkpoints").exists() == (validation_tasks == 0), "training itself was finite"


@pytest.mark.parametrize("learner", ["toe", "a-gem"])
def test_a_learner_that_cannot_learn_offline_is_refused_before_a_byte_is_written(learner: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=learner):
        anyshot.run(make(learner), tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


# The command line


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("protocol.test_tasks=50", ["train_tasks 80", "test_tasks 50", "100 tasks"]),
        ("protocol.max_shots=95", ["max_shots", "105", "100"]),
        ("protocol.ways=5", ["ways is 5"]),
        ("protocol.steps=0", ["steps", "0"]),
    ],
)
def test_bad_requests_are_refused_before_any_work(
    setting: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    code, _, printed = run_here(capsys)("run", "sinusoid-offline", "--out", str(out), "--set", setting)
    assert code == 2
    assert all(word in printed for word in words)
    assert "Traceback" not in printed
    assert not out.exists()


@pytest.mark.medium
def test_a_finished_run_is_summed_up_again(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (whole / "summary.json").read_bytes()
    code, printed, _ = run_here(capsys)("run", "--resume", str(whole))
    _, _, summary = read_run(whole)
    assert code == 0
    assert f"{summary.tests[3].loss:.3f} with 10" in printed
    assert (whole / "summary.json").read_bytes() == before
