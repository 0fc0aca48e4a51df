"""`run` and `load_run`: what a `Run` is, what it predicts, and what is refused."""

from __future__ import annotations

import dataclasses
import gc
import shutil
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anyshot import Experiment, OnlineProtocol, Run, Shots, TaskSet, load_run, make_learner, run
from anyshot.errors import DataError, InputError, RunError
from anyshot.learners import Learner
from anyshot.runs import checkpoints
from anyshot.runs.files import sealed, unsealed
from anyshot.runs.reading import experiment_sha256, read_run
from tests.support.refusals import Case, assert_refused, parametrized
from tests.support.small_runs import small_online
from tests.support.toy_runs import no_warning

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]
RNG = np.random.default_rng(0)
NONE = jnp.zeros((), jnp.int32)


def test_a_run_says_in_short_what_came_out(online_folder: Path, offline_folder: Path, tmp_path: Path) -> None:
    online, offline = load_run(online_folder), load_run(offline_folder)
    summary = online.summary
    assert summary is not None
    assert summary.kind == "online"
    for word in ("ftml-vs", "sinusoid", "seed 0", f"{summary.mastered} of 6", f"{summary.total_labels} labels"):
        assert word in repr(online)
    assert "\n" not in repr(online)
    assert repr(offline).count("loss") == 3
    shutil.copytree(online_folder, tmp_path / "run")
    (tmp_path / "run/summary.json").unlink()
    assert "not finished" in repr(load_run(tmp_path / "run"))


def test_html_is_escaped(online_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "<b>&"
    shutil.copytree(online_folder, folder)
    shown = load_run(folder)
    record = shown.experiment
    shown.experiment = record.model_copy(update={"tasks": record.tasks.model_copy(update={"name": "<script>"})})
    html = shown._repr_html_()
    assert "<b>" not in html
    assert "<script>" not in html
    assert "&lt;b&gt;&amp;" in html
    assert "&lt;script&gt;" in html


def test_the_table_and_the_events_are_those_of_the_log(online_folder: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, Any]] = []
    again = run(small_online(), tmp_path, progress=False, observe=lambda what, news: seen.append((what, news)))
    assert [news for what, news in seen if what == "event"] == read_run(online_folder)[1]
    assert [what for what, _ in seen[:2]] == ["compiling", "compiled"]
    assert seen[-1][0] == "saved"
    assert len(again.table) == len(read_run(online_folder)[1])
    assert again.learner.name == "ftml-vs"
    seen.clear()
    run(small_online(), tmp_path, progress=False, observe=lambda what, news: seen.append((what, news)))
    assert seen == []  # it was finished


def test_progress_is_printed_unless_it_is_not_wanted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(small_online("toe", num_tasks=1), tmp_path / "a", progress=False)
    assert capsys.readouterr().out == ""
    run(small_online("toe", num_tasks=1), tmp_path / "b")
    assert "task 1 of 1" in capsys.readouterr().out


# What is predicted ---------------------------------------------------------------------------------------------------


def classes(num_classes: int) -> Run:
    """A run, as if it had been run, of a classifier of three numbers with M = 5."""
    rules = OnlineProtocol(max_steps=20, max_shots=5, test_size=4)
    x = RNG.normal(size=(2, 30, 3)).astype(np.float32)
    tasks = TaskSet.from_arrays([(part, np.arange(30) % num_classes) for part in x], test_size=4)
    learner = make_learner("ftml-vs", tasks, rules, network={"kind": "mlp", "hidden": (4,)}, inner_rate=0.5)
    return Run(Path("nowhere"), Experiment(tasks, learner, rules).record, learner, learner.init(jax.random.key(0)))


@pytest.mark.parametrize("shots", [0, 3, 10])
@pytest.mark.parametrize("kind", ["online", "offline", "classes"])
def test_a_prediction_is_the_learners(kind: str, shots: int, online_folder: Path, offline_folder: Path) -> None:
    found = {"online": lambda: load_run(online_folder), "offline": lambda: load_run(offline_folder)}
    loaded = found.get(kind, lambda: classes(4))()
    size = 3 if kind == "classes" else 1
    x = RNG.normal(size=(shots, size)).astype(np.float32)
    y = np.arange(shots) % 4 if kind == "classes" else np.sin(x)
    queries = RNG.normal(size=(7, size)).astype(np.float32)
    support = Shots.of(x, y) if shots else Shots(jnp.zeros((1, size)), jnp.zeros((1, *y.shape[1:]), y.dtype), NONE)
    expected = loaded.learner.predict(loaded.state, support, jnp.asarray(queries))
    for given in [(x, y), Shots.of(x, y), (x.tolist(), y.tolist())] + [None] * (shots == 0):
        outputs = loaded.predict(given, queries)
        assert isinstance(outputs, np.ndarray)
        np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)
    if shots:  # adaptation matters, and so does each shot
        assert not np.allclose(loaded.predict(None, queries), expected)
        assert not np.allclose(loaded.predict((x[:-1], y[:-1]), queries), expected)


@pytest.mark.parametrize("name", ["ftml-vs", "scratch-kernel"])
def test_for_no_images_there_are_no_outputs(name: str) -> None:
    rules = OnlineProtocol(max_steps=20, max_shots=5, test_size=4)
    x, y = np.zeros((30, 12, 12, 3), np.uint8), np.arange(30) % 4
    tasks = TaskSet.from_arrays([(x, y), (x, y)], test_size=4)
    learner = make_learner(name, tasks, rules, network={"kind": "conv4", "channels": 2})
    found = Run(Path("nowhere"), Experiment(tasks, learner, rules).record, learner, learner.init(jax.random.key(0)))
    assert found.predict((x[:5], y[:5]), x[:0]).shape == (0, 4)
    assert found.predict(None, x[:0]).shape == (0, 4)


def predicting(shots: Any, x: Any = ((1.0, 2.0, 3.0),)) -> Any:
    return lambda: classes(4).predict(shots, x)


ROWS = np.ones((2, 3), np.float32)
WRONG: list[Case] = [
    ("x of another shape", predicting(None, np.ones((2, 4))), ["x", "(3,)", "(2, 4)"]),
    ("one input", predicting(None, np.ones(3)), ["x", "(3,)"]),
    ("a number", predicting(None, 5.0), ["x", "()"]),
    ("whole numbers", predicting(None, np.ones((2, 3), np.uint8)), ["x", "float32", "uint8"]),
    ("text", predicting(None, [["a", "b", "c"]]), ["x", "float32"]),
    ("NaN", predicting(None, [[1.0, 2.0, np.nan]]), ["x", "non-finite"]),
    ("shots of another shape", predicting((np.ones((2, 2)), [0, 1])), ["inputs", "(3,)", "(2, 2)"]),
    ("labels of another shape", predicting((ROWS, [[0], [1]])), ["labels", "(2, 1)"]),
    ("too few labels", predicting((ROWS, [0])), ["2", "1"]),
    ("labels that are no classes", predicting((ROWS, [0.0, 1.0])), ["labels", "0 to 3", "float64"]),
    ("a class too many", predicting((ROWS, [0, 4])), ["labels", "0 to 3", "4"]),
    ("a negative class", predicting((ROWS, [0, -1])), ["labels", "0 to 3", "-1"]),
    ("NaN in shots", predicting((ROWS * np.nan, [0, 1])), ["inputs", "non-finite"]),
    ("no pair", predicting(ROWS), ["shots", "pair", "ndarray"]),
    (
        "Shots of another shape",
        predicting(Shots.of(np.ones((2, 2), np.float32), np.zeros(2, int))),
        ["inputs", "(2, 2)"],
    ),
]


@parametrized(WRONG)
def test_what_cannot_be_predicted_is_refused(call: Any, words: list[str]) -> None:
    assert_refused(call, words)


def test_true_and_false_are_the_classes_one_and_zero() -> None:
    found, x = classes(2), np.eye(3, dtype=np.float32)[:2]
    outputs = [found.predict((x, labels), x) for labels in ([False, True], [0, 1], [1, 0])]
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert not np.allclose(outputs[0], outputs[2])


# Folders -------------------------------------------------------------------------------------------------------------


def test_a_temporary_folder_goes_with_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = run(small_online("toe", num_tasks=1), progress=False)
    assert found.folder.parent == tmp_path
    assert len(found.table) > 1
    del found
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_folder_goes_when_the_run_is_interrupted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupt(what: str, news: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        run(small_online("toe", num_tasks=1), progress=False, observe=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_is_loaded_by_its_number(tmp_path: Path) -> None:
    last = run(small_online(), tmp_path, progress=False, checkpoint_seconds=0.0)
    earlier, newest = sorted(int(path.name) for path in (tmp_path / "checkpoints").iterdir())
    for number, wanted in ((earlier, earlier), (newest, newest), (None, newest)):
        saved = checkpoints.load(tmp_path / "checkpoints", experiment_sha256(tmp_path), no_warning, wanted)
        assert saved
        loaded = load_run(tmp_path, number)
        beta = float(loaded.learner.rates(loaded.state)["beta"])
        assert beta == float(np.exp(saved.arrays[".learner.rate.log_beta"]))
        assert (beta == float(last.learner.rates(last.state)["beta"])) == (wanted == newest)
    with pytest.raises(InputError, match=rf"3.*{newest}, {earlier}"):
        load_run(tmp_path, 3)


def test_the_state_of_an_offline_run_is_the_best_one(offline_folder: Path) -> None:
    loaded = load_run(offline_folder)
    saved = checkpoints.load(offline_folder / "checkpoints", experiment_sha256(offline_folder), no_warning)
    assert saved
    assert float(np.exp(saved.arrays[".best.rate.log_beta"])) == float(loaded.learner.rates(loaded.state)["beta"])


def test_a_folder_without_a_checkpoint_cannot_be_loaded(online_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(online_folder, tmp_path / "run")
    shutil.rmtree(tmp_path / "run/checkpoints")
    with pytest.raises(DataError, match="no checkpoint"):
        load_run(tmp_path / "run")
    with pytest.raises(DataError, match=r"experiment\.json"):
        load_run(tmp_path)


def scaled(scale: float) -> Any:
    return lambda output, label: scale * jnp.mean((output - label) ** 2)


def own(experiment: Experiment, **parts: Any) -> Experiment:
    learner = make_learner(experiment.learner.name, experiment.tasks, experiment.protocol, **parts)
    return dataclasses.replace(experiment, learner=learner)


def test_a_run_with_own_parts_is_loaded_with_its_learner(tmp_path: Path) -> None:
    experiment = own(
        small_online(num_tasks=1), network=lambda key, n: eqx.nn.MLP(1, n, 4, 1, key=key), loss=scaled(2.0)
    )
    done = run(experiment, tmp_path, progress=False)
    with pytest.raises(InputError, match=r"network.*learner="):
        load_run(tmp_path)
    with pytest.raises(InputError, match="loss"):
        load_run(tmp_path, learner=own(experiment, network=experiment.learner.spec.network).learner)  # type: ignore[attr-defined]
    again = load_run(tmp_path, learner=experiment.learner)
    np.testing.assert_array_equal(done.predict(None, [[0.5]]), again.predict(None, [[0.5]]))


def test_a_loss_that_changes_what_it_closes_over_does_not_spoil_its_own_run(tmp_path: Path) -> None:
    calls: list[int] = []

    def counting(output: Any, label: Any) -> Any:
        calls.append(1)
        return jnp.mean((output - label) ** 2)

    assert run(own(small_online("toe", num_tasks=1), loss=counting), tmp_path, progress=False).summary is not None
    assert calls


def test_a_setting_that_was_added_later_keeps_old_folders_open(online_folder: Path, tmp_path: Path) -> None:
    """The folder of a version without kl_coefficient of FTML and overlap of the protocol, which have defaults."""
    shutil.copytree(online_folder, tmp_path / "run")
    file = tmp_path / "run/experiment.json"
    content = unsealed(file.read_bytes())
    del content["learner"]["hyperparameters"]["kl_coefficient"], content["protocol"]["overlap"]
    file.write_bytes(sealed(content))
    sha256 = experiment_sha256(tmp_path / "run")
    for carrier in (*(tmp_path / "run/checkpoints").glob("*/manifest.json"), tmp_path / "run/summary.json"):
        carrier.write_bytes(sealed({**unsealed(carrier.read_bytes()), "experiment_sha256": sha256}))
    before = file.read_bytes()
    experiment = small_online()
    for found in (
        run(experiment, tmp_path / "run", progress=False),
        load_run(tmp_path / "run"),
        load_run(tmp_path / "run", learner=experiment.learner),
    ):
        assert found.summary is not None
        assert found.learner.hyper.kl_coefficient == 0  # type: ignore[attr-defined]
    assert file.read_bytes() == before
    hyper = dataclasses.asdict(experiment.learner.hyper) | {"kl_coefficient": 0.1}  # type: ignore[attr-defined]
    other = own(experiment, network={"kind": "mlp", "hidden": (8,)}, **hyper)
    with pytest.raises(InputError, match=r"kl_coefficient is 0\.0 there and 0\.1 here"):
        run(other, tmp_path / "run", progress=False)
    with pytest.raises(InputError, match="kl_coefficient"):
        load_run(tmp_path / "run", learner=other.learner)
    with pytest.raises(InputError, match=r"protocol.overlap is false there and true here"):
        run(small_online(overlap=True), tmp_path / "run", progress=False)


REFUSED: list[Case] = [
    ("no experiment", lambda: run("sinusoid"), ["experiment", "'sinusoid'"]),  # type: ignore[arg-type]
    ("seconds", lambda: run(small_online(), "never", checkpoint_seconds=-1), ["checkpoint_seconds", "-1"]),
    ("text", lambda: run(small_online(), "never", checkpoint_seconds="1"), ["checkpoint_seconds", "'1'"]),  # type: ignore[arg-type]
    ("accuracy in a regression", lambda: run(small_online(measure="accuracy"), "never"), ["measure", "'loss'"]),
]


@parametrized(REFUSED)
def test_what_cannot_be_run_is_refused_before_anything_is_written(
    call: Any, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_refused(call, words)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_fails_before_its_first_round_leaves_the_folder_to_the_corrected_one(tmp_path: Path) -> None:
    def broken(output: Any, label: Any) -> Any:
        raise ValueError("of my own making")

    with pytest.raises(ValueError, match="of my own making"):
        run(own(small_online("toe", num_tasks=1), loss=broken), tmp_path, progress=False)
    assert run(own(small_online("toe", num_tasks=1), loss=scaled(1.0)), tmp_path, progress=False).summary is not None


def test_a_checkpoint_of_another_precision_is_refused_with_both(online_folder: Path) -> None:
    with (
        jax.enable_x64(False),
        pytest.raises(RunError, match=r"float64\[.* there and float32\[.* here.*jax_enable_x64"),
    ):
        load_run(online_folder)


class Mean(Learner):
    """A learner that is no `NetworkLearner`: it predicts the mean label that it has seen, plus that of the shots."""

    share: float = 0.5

    @property
    def wants(self) -> Any:
        return frozenset({"batch"})

    def init(self, key: Any) -> Any:
        return jnp.zeros(1)

    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        seen = drawn.batch.present()[:, None]
        mean = jnp.sum(jnp.where(seen, drawn.batch.y, 0.0), axis=0) / jnp.maximum(jnp.sum(seen), 1)
        return state + 0.1 * (mean - state), {"loss": jnp.mean(jnp.abs(mean - state))}

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        seen = support.present()[:, None]
        shots = jnp.sum(jnp.where(seen, support.y, 0.0), axis=0) / jnp.maximum(support.count, 1)
        return jnp.broadcast_to(state + self.share * shots, (len(query), 1))


def test_a_learner_of_ones_own_class_is_run_and_loaded(tmp_path: Path) -> None:
    experiment = dataclasses.replace(small_online("toe", num_tasks=1), learner=Mean())
    done = run(experiment, tmp_path, progress=False)
    assert done.state.shape == (1,)
    assert done.state[0] != 0
    again = load_run(tmp_path, learner=Mean())
    shots = (np.zeros((2, 1), np.float32), np.array([[1.0], [3.0]], np.float32))
    np.testing.assert_allclose(again.predict(shots, np.zeros((4, 1))), np.full((4, 1), done.state[0] + 1.0), rtol=1e-6)
    for learner, words in ((None, "class"), (Mean(0.25), "share")):
        with pytest.raises(InputError, match=words):
            load_run(tmp_path, learner=learner)
    with pytest.raises(InputError, match=r"share is 0\.5 there and 0\.25 here"):
        run(dataclasses.replace(experiment, learner=Mean(0.25)), tmp_path, progress=False)
