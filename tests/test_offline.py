"""Offline runs: what is drawn, when training stops, how certain the test is, and that a stopped run ends the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anyshot import InputError, cross_entropy
from anyshot.cli import main
from anyshot.errors import RunError
from anyshot.learners import TOE, Learner, Recipe
from anyshot.networks import MLP
from anyshot.offline import OfflineLoop, Plan, Split, evaluate, split_for
from anyshot.offline.split import Draw
from anyshot.runs.offline import run_offline
from anyshot.runs.offline_experiment import OfflineExperiment
from anyshot.runs.offline_presets import OFFLINE_PRESETS, offline_preset
from anyshot.runs.settings import OfflineSettings
from anyshot.tasks import ClassTasks, PairTasks, TaskSet

TASKS, GIVEN, HELD = 6, 12, 5
PLAN = Plan(
    steps=40,
    every=10,
    patience=2,
    tasks_per_update=4,
    max_shots=4,
    queries=3,
    validation_tasks=1,
    validation_episodes=2,
    test_shots=(0, 1, 4),
    test_queries=5,
)


def numbered(kind: type[TaskSet] = TaskSet, held: int = HELD) -> TaskSet:
    """Tasks whose inputs are the numbers of their rows, so that one sees what was drawn; labels 0, 1, 2."""
    rows = np.arange(TASKS * (GIVEN + held), dtype=np.int32).reshape(TASKS, -1)
    x = np.arange(rows.size, dtype=np.float32)[:, None]
    labels = np.repeat(np.arange(TASKS), GIVEN + held) if kind is ClassTasks else np.arange(rows.size) % 3
    names = tuple(f"task {number}" for number in range(TASKS))
    return kind("numbered", x, labels.astype(np.int32), rows[:, :GIVEN], rows[:, GIVEN:], names, train_tasks=4)


# What is drawn


def test_training_draws_only_what_training_tasks_may_give() -> None:
    tasks = numbered()
    split = split_for(tasks, PLAN)
    draw = eqx.filter_jit(Draw(split.train.on_device(), PLAN, PLAN.max_shots, PLAN.queries, held=False).training)
    counts, allowed = [], set(tasks.given[:3].ravel().tolist())
    for number in range(60):
        episodes = draw(jax.random.key(number))
        for one in range(PLAN.tasks_per_update):
            count = int(episodes.train.count[one])
            counts.append(count)
            shots = episodes.train.x[one, :count, 0].astype(int).tolist()
            queries = episodes.val.x[one, :, 0].astype(int).tolist()
            assert len(queries) == PLAN.queries
            assert len({*shots, *queries}) == count + PLAN.queries  # each datapoint once
            assert {*shots, *queries} <= allowed
            assert len({row // (GIVEN + HELD) for row in [*shots, *queries]}) == 1  # of one task
    # 240 draws of 0..4, expected 48 each, standard deviation 6.2
    assert all(25 < counts.count(shots) < 72 for shots in range(5))
    assert set(counts) == set(range(5))


def test_a_test_adapts_on_given_datapoints_and_asks_for_held_ones() -> None:
    tasks = numbered()
    split = split_for(tasks, PLAN)
    episode = Draw(split.test, PLAN, 4, 5, held=True).episode(jax.random.key(0), jnp.asarray(1), jnp.asarray(2))
    assert set(episode.train.x[:, 0].astype(int).tolist()) <= set(tasks.given[5].tolist())
    assert sorted(episode.val.x[:, 0].astype(int).tolist()) == tasks.held[5].tolist()


def training(tasks: TaskSet, plan: Plan, size: int) -> Any:
    return eqx.filter_jit(Draw(tasks.on_device(), plan, size, size, held=False).training)(jax.random.key(0))


def test_fixed_shots_are_classic_maml() -> None:
    plan = replace(PLAN, least_shots=3, max_shots=3)
    episodes = training(numbered(), plan, 3)
    assert episodes.train.count.tolist() == [3] * 4


def test_pairs_come_in_any_number_and_ways_in_whole_shots() -> None:
    pairs = training(numbered(PairTasks), replace(PLAN, tasks_per_update=40), 4)
    assert set(pairs.train.count.tolist()) == {0, 1, 2, 3, 4}
    assert {0, 1} == set(pairs.train.y[pairs.train.count == 1][:, 0].tolist())
    plan = replace(PLAN, ways=2, least_shots=1)
    ways = training(numbered(ClassTasks, 0), plan, 4)
    assert ways.train.y.shape == (4, 8)
    for one in range(4):
        count = int(ways.train.count[one])
        assert count % 2 == 0
        assert ways.train.y[one, :count].tolist() == [0, 1] * (count // 2)


# When training stops


class Scripted(Learner):
    """Answers rightly with a chance that depends on how often it was updated, as the script says."""

    script: tuple[float, ...] = eqx.field(static=True)

    @property
    def wants(self) -> Any:
        return frozenset({"episodes"})

    def init(self, key: Any) -> Any:
        return {"updates": jnp.zeros((), jnp.int32)}

    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return {"updates": state["updates"] + 1}, {"loss": jnp.zeros(())}

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        score = jnp.asarray(self.script)[state["updates"] // PLAN.every]
        rightly = jnp.arange(query.shape[0]) < jnp.round(score * query.shape[0])
        right = query[:, 0].astype(int) % 3
        return jax.nn.one_hot(jnp.where(rightly, right, (right + 1) % 3), 3)


@pytest.mark.parametrize(
    ("script", "rounds", "best"),
    [
        ((0, 0.2, 0.4, 0.6, 0.8), 4, 4),  # all steps are used
        ((0, 0.6, 0.4, 0.4, 0.8), 3, 1),  # two trials bring nothing better: what would have come is not waited for
        ((0, 0.6, 0.4, 0.8, 0.8), 4, 3),  # as good is not better
    ],
)
def test_training_stops_when_trials_bring_nothing_better(script: tuple[float, ...], rounds: int, best: int) -> None:
    split = split_for(numbered().on_device(), PLAN)
    loop = OfflineLoop(Scripted(script), PLAN, cross_entropy, True)
    key = jax.random.key(0)
    start = loop.start(split, key)
    state, records, done = eqx.filter_jit(loop.run)(split, start, key, jnp.asarray(20))
    assert (int(done), int(state.rounds), int(state.best_round)) == (rounds, rounds, best)
    assert int(state.best["updates"]) == best * PLAN.every
    assert int(state.learner["updates"]) == rounds * PLAN.every
    np.testing.assert_allclose(records.score[:rounds], script[1 : rounds + 1], rtol=1e-6)
    assert records.ended[:rounds].tolist() == [False] * (rounds - 1) + [True]


class Overflowing(Scripted):
    """Whose outputs are not finite after twenty updates, though its state is."""

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return super().predict(state, support, query) / (state["updates"] != 20)


def test_outputs_that_are_not_finite_stop_training_and_are_not_kept() -> None:
    """Their accuracy is a number like any other."""
    split = split_for(numbered().on_device(), PLAN)
    loop = OfflineLoop(Overflowing((0, 0.2, 1, 1, 1)), PLAN, cross_entropy, True)
    state, records, done = loop.run(split, loop.start(split, jax.random.key(0)), jax.random.key(0), jnp.asarray(20))
    assert (int(done), bool(state.finite), int(state.best_round)) == (2, False, 1)
    assert np.isfinite(records.score[:2]).all()


def test_without_validation_tasks_the_end_counts() -> None:
    plan = replace(PLAN, validation_tasks=0)
    split = split_for(numbered().on_device(), plan)
    loop = OfflineLoop(Scripted((0, 1, 0, 0, 0)), plan, cross_entropy, True)
    state, records, done = loop.run(split, loop.start(split, jax.random.key(0)), jax.random.key(0), jnp.asarray(20))
    assert (int(done), int(state.best["updates"])) == (4, 40)
    assert np.isnan(records.accuracy).any()


def test_a_learner_that_wants_more_than_episodes_is_refused() -> None:
    recipe = Recipe(lambda key, outputs: MLP((1, outputs), key=key), 3, cross_entropy, True)
    with pytest.raises(
        InputError, match=r"^offline there are only episodes to learn from, but the learner wants batch$"
    ):
        OfflineLoop(TOE(recipe), PLAN, cross_entropy, True)


# How certain the test is


class Guessing(Scripted):
    """Answers class (number of shots) mod 3, whatever is asked."""

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return jnp.broadcast_to(jax.nn.one_hot(support.count % 3, 3), (query.shape[0], 3))


def test_the_test_is_as_certain_as_the_plan_wants() -> None:
    """Of 300 held datapoints a task, 5 are asked for: the answer is right with chance 1/3, which is known."""
    plan = replace(PLAN, standard_error=2.0, test_shots=(0, 1, 2, 4))
    tests = Draw(numbered(held=300).on_device(), plan, 4, 5, held=True)
    loop = OfflineLoop(Guessing(()), plan, cross_entropy, True)
    scores = evaluate(loop, tests, {}, jax.random.key(5))
    assert scores.shots == (0, 1, 2, 4)
    assert (100 * scores.accuracy_error <= 2.0).all()
    # The chance of each answer is 1/3, so the error is known: sqrt(2/9 / datapoints), which are nearly independent.
    expected = np.sqrt(2 / 9 / (5 * scores.episodes))
    np.testing.assert_allclose(scores.accuracy_error, expected, rtol=0.5)
    assert (np.abs(scores.accuracy - 1 / 3) < 4 * scores.accuracy_error).all()
    assert scores.accuracy[1] == scores.accuracy[3]  # 1 and 4 shots: the same answer to the same datapoints
    few = evaluate(
        OfflineLoop(Guessing(()), replace(plan, standard_error=1e-9, most_episodes=130), cross_entropy, True),
        Draw(tests.tasks, replace(plan, most_episodes=130), 4, 5, held=True),
        {},
        jax.random.key(5),
    )
    assert 130 <= few.episodes < 130 + 5 * TASKS


# What cannot be done


@pytest.mark.parametrize(
    ("kind", "changes", "sentence"),
    [
        (TaskSet, {"max_shots": 10}, "max_shots and queries ask for 13 datapoints, but a task of numbered holds 12"),
        (TaskSet, {"test_shots": (0, 13)}, "test_shots ask for 13 datapoints, but a task of numbered holds 12"),
        (TaskSet, {"test_queries": 6}, "test_queries ask for 6 datapoints, but a task of numbered holds 5"),
        (TaskSet, {"test_tasks": 3}, "train_tasks 4 and test_tasks 3 overlap: numbered has 6 tasks in all"),
        (TaskSet, {"train_tasks": 6}, "train_tasks must leave unseen tasks to test on: numbered has 6 tasks, got 6"),
        (TaskSet, {"validation_tasks": 4}, "validation_tasks must be less than the 4 tasks to train on, got 4"),
        (TaskSet, {"ways": 2}, "ways is 2, but numbered has labels of its own"),
        (ClassTasks, {}, "ways is None, but numbered needs ways"),
        (ClassTasks, {"ways": 3}, "ways is 3, but only 1 classes of numbered are for validation"),
        (ClassTasks, {"ways": 3, "validation_tasks": 0}, "ways is 3, but only 2 classes of numbered are for test"),
        (PairTasks, {}, "validation has one task of numbered, but a pair of two classes needs two"),
    ],
)
def test_what_cannot_be_done_is_refused(kind: Any, changes: dict[str, Any], sentence: str) -> None:
    tasks = numbered(kind, 0 if kind is ClassTasks else HELD)
    with pytest.raises(InputError) as caught:
        split_for(tasks, replace(PLAN, **changes))
    assert str(caught.value).startswith(sentence)


def test_a_random_order_deals_out_all_tasks_and_is_the_same_for_the_same_number() -> None:
    tasks = numbered()
    first, again, other = (split_for(tasks, replace(PLAN, order=order)) for order in (0, 0, 1))
    names = [part.task_names for part in (first.train, first.validation, first.test) if part is not None]
    assert sorted(name for part in names for name in part) == sorted(tasks.task_names)
    assert first.train.task_names == again.train.task_names != other.train.task_names
    assert list(first.train.task_names) != sorted(first.train.task_names)


def test_a_task_in_two_parts_is_refused() -> None:
    tasks = numbered()
    with pytest.raises(InputError, match=r"^task 'task 2' is in train and in test; a task may be in one of them$"):
        Split(tasks.select([0, 2]), None, tasks.select([2, 3]))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"steps": 0}, "steps must be a whole number of at least 1, got 0"),
        ({"steps": 45}, "steps must be a multiple of every 10, got 45"),
        ({"patience": 10**11}, "patience must be less than 1,000,000,000, got 100000000000"),
        ({"least_shots": 5}, "least_shots must be at most max_shots 4, got 5"),
        ({"test_shots": ()}, "test_shots is empty"),
        ({"test_shots": (1, 0)}, "test_shots must be rising"),
        ({"test_shots": (-1,)}, "test_shots must be a whole number of at least 0, got -1"),
        ({"standard_error": 0.0}, "standard_error must be a positive"),
        ({"ways": 1}, "ways must be a whole number of at least 2, got 1"),
    ],
)
def test_nonsense_in_a_plan_is_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        replace(PLAN, **changes)
    assert str(caught.value).startswith(sentence)


# A whole run


def small() -> OfflineSettings:
    settings = offline_preset("sinusoid-offline")
    changes = {"steps": 800, "every": 100, "test_tasks": 5, "validation_episodes": 10, "standard_error": 5.0}
    numbers = replace(settings.numbers, meta_rate=3e-3, inner_steps=2, inner_rate=0.1)
    return settings.model_copy(update={"plan": replace(settings.plan, **changes), "numbers": numbers})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("offline") / "whole"
    run_offline(OfflineExperiment(small(), "maml-vs", seed=1), folder)
    return folder


def test_a_run_that_is_stopped_and_goes_on_ends_with_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    experiment = OfflineExperiment(small(), "maml-vs", seed=1)
    for moment in ("compiled", "evaluated", "testing", "tested"):

        def stop(what: str, news: dict[str, Any], moment: str = moment) -> None:
            if what == moment:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_offline(experiment, tmp_path, watch=stop, checkpoint_seconds=0.0)
    assert run_offline(experiment, tmp_path) == run_offline(experiment, whole)
    for name in ("events.jsonl", "summary.json"):
        assert (whole / name).read_bytes() == (tmp_path / name).read_bytes()


def test_maml_vs_adapts_to_unseen_waves(whole: Path) -> None:
    """With ten shots the loss on waves never seen is far below that without any, and that of the best constant."""
    summary = json.loads((whole / "summary.json").read_text())["content"]["summary"]
    assert summary["best_step"] <= summary["steps"] == 800
    by_shots = {line["shots"]: line["loss"] for line in summary["test"]}
    tasks = OfflineExperiment(small(), "maml-vs", 0).load_tasks()
    constant = float(np.mean([np.var(tasks.y[rows]) for rows in tasks.held[80:85]]))
    assert list(by_shots) == [0, 1, 5, 10]
    assert by_shots[10] < 0.7 * by_shots[0]
    assert by_shots[10] < 0.7 * constant
    assert all("accuracy" not in line for line in summary["test"])  # a regression has none


def test_methods_with_one_seed_are_tested_on_the_same_episodes() -> None:
    settings = small()
    tests = []
    for name in ("maml", "mann"):
        experiment = OfflineExperiment(settings, name, seed=4)
        split = experiment.split(experiment.load_tasks())
        draw = Draw(split.test, settings.plan, 10, 5, held=True)
        tests.append(draw.episode(experiment.keys()["test"], jnp.asarray(0), jnp.asarray(5)))
    assert eqx.tree_equal(*tests)


@pytest.mark.parametrize("name", OFFLINE_PRESETS)
def test_presets_are_possible(name: str) -> None:
    settings = offline_preset(name)
    assert settings.plan.rounds >= 10
    assert settings.most_shots >= settings.plan.max_shots


@pytest.mark.parametrize("validation_tasks", [10, pytest.param(0, marks=pytest.mark.slow)])
def test_a_run_that_diverges_says_so_and_is_not_finished(tmp_path: Path, validation_tasks: int) -> None:
    """It is noticed at the first trial, or in the test."""
    settings = small()
    numbers = replace(settings.numbers, meta_rate=1e200)
    plan = replace(settings.plan, validation_tasks=validation_tasks, steps=100)
    wild = settings.model_copy(update={"numbers": numbers, "plan": plan})
    with pytest.raises(RunError, match=r"not finite"):
        run_offline(OfflineExperiment(wild, "mann", 0), tmp_path)
    assert not (tmp_path / "summary.json").exists()


# The command


def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["anyshot", *words])
    try:
        main()
        code: Any = 0
    except SystemExit as end:
        code = end.code
    told = capsys.readouterr()
    return code, told.out, told.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--plan.test-tasks", "50"], "train_tasks 80 and test_tasks 50 overlap: sinusoid has 100 tasks in all"),
        (["--plan.max-shots", "95"], "max_shots and queries ask for 105 datapoints, but a task of sinusoid holds 100"),
        (["--plan.ways", "5"], "ways is 5, but sinusoid has labels of its own, so ways must be None"),
        (["--plan.steps", "0"], "steps must be a whole number of at least 1, got 0"),
        (["--seed", "-1"], "seed must be a whole number from 0 to 4294967295, got -1"),
    ],
)
def test_bad_requests_are_refused_before_any_work(
    words: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "run"
    code, _, told = command(monkeypatch, capsys, "offline", "sinusoid-offline", "--out", str(out), *words)
    assert code == 2
    assert sentence in told
    assert "Traceback" not in told
    assert not out.exists()


def test_a_finished_run_is_told_again_and_belongs_to_its_command(
    whole: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told, _ = command(monkeypatch, capsys, "offline", "--resume", str(whole))
    test = run_offline(OfflineExperiment(small(), "maml-vs", seed=1), whole)
    assert code == 0
    assert f"loss {test[3]['loss']:.3f} ± {test[3]['loss_error']:.3f} with 10 shots on unseen tasks" in told
    code, _, told = command(monkeypatch, capsys, "run", "--resume", str(whole))
    assert code == 2
    assert told == f"anyshot: {whole} is an offline run; go on with: anyshot offline --resume {whole}\n"
