"""Which tasks are trained, validated and tested on, and the episodes that are drawn from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from anyshot.offline import OfflineProtocol, Split, split_for
from anyshot.offline.split import Draw
from anyshot.tasks import ClassTasks, PairTasks, TaskSet
from tests.support.offline_tasks import RULES, TEST, TRAIN, numbered
from tests.support.refusals import assert_refused

pytestmark = pytest.mark.usefixtures("quick_compilation")


def test_training_draws_only_from_the_train_rows_of_training_tasks() -> None:
    tasks = numbered()
    split = split_for(tasks, RULES)
    draw = eqx.filter_jit(
        Draw(split.train.on_device(), RULES, RULES.max_shots, RULES.queries, from_test_rows=False).training
    )
    counts, allowed = [], set(tasks.train_rows[:3].ravel().tolist())
    for number in range(60):
        episodes = draw(jax.random.key(number))
        for one in range(RULES.tasks_per_update):
            count = int(episodes.train.count[one])
            counts.append(count)
            shots = episodes.train.x[one, :count, 0].astype(int).tolist()
            queries = episodes.val.x[one, :, 0].astype(int).tolist()
            assert len(queries) == RULES.queries
            assert len({*shots, *queries}) == count + RULES.queries  # each datapoint once
            assert {*shots, *queries} <= allowed
            assert len({row // (TRAIN + TEST) for row in [*shots, *queries]}) == 1  # of one task
    # 240 draws of 0..4, expected 48 each, standard deviation 6.2
    assert all(25 < counts.count(shots) < 72 for shots in range(5))
    assert set(counts) == set(range(5))


def test_a_test_adapts_to_train_rows_and_asks_for_test_rows() -> None:
    tasks = numbered()
    split = split_for(tasks, RULES)
    episode = Draw.test(split.test, RULES).episode(jax.random.key(0), jnp.asarray(1), jnp.asarray(2))
    assert set(episode.train.x[:, 0].astype(int).tolist()) <= set(tasks.train_rows[5].tolist())
    assert sorted(episode.val.x[:, 0].astype(int).tolist()) == tasks.test_rows[5].tolist()
    assert int(episode.train.count) == 2


def training(tasks: TaskSet, protocol: OfflineProtocol, size: int) -> Any:
    draw = Draw(tasks.on_device(), protocol, size, size, from_test_rows=False)
    return eqx.filter_jit(draw.training)(jax.random.key(0))


def test_fixed_shots_are_classic_maml() -> None:
    episodes = training(numbered(), replace(RULES, min_shots=3, max_shots=3), 3)
    assert episodes.train.count.tolist() == [3] * 4


def test_pairs_come_in_any_number_and_ways_in_whole_shots() -> None:
    pairs = training(numbered(PairTasks), replace(RULES, tasks_per_update=40), 4)
    assert set(pairs.train.count.tolist()) == {0, 1, 2, 3, 4}
    assert {0, 1} == set(pairs.train.y[pairs.train.count == 1][:, 0].tolist())
    ways = training(numbered(ClassTasks, 0), replace(RULES, ways=2, min_shots=1), 4)
    assert ways.train.y.shape == (4, 8)
    for one in range(4):
        count = int(ways.train.count[one])
        assert count % 2 == 0
        assert ways.train.y[one, :count].tolist() == [0, 1] * (count // 2)


def test_the_first_tasks_train_the_last_of_those_validate_and_the_others_are_tested() -> None:
    names = numbered().task_names
    split = split_for(numbered(), RULES)
    assert split.train.task_names == names[:3]
    assert split.validation is not None
    assert split.validation.task_names == names[3:4]
    assert split.test.task_names == names[4:]
    other = split_for(numbered(), replace(RULES, train_tasks=2, validation_tasks=0, test_tasks=1))
    assert (other.train.task_names, other.validation, other.test.task_names) == (names[:2], None, names[2:3])


def test_a_random_order_deals_out_all_tasks_and_is_the_same_for_the_same_number() -> None:
    tasks = numbered()
    first, again, other = (split_for(tasks, replace(RULES, order=order)) for order in (0, 0, 1))
    names = [part.task_names for part in (first.train, first.validation, first.test) if part is not None]
    assert sorted(name for part in names for name in part) == sorted(tasks.task_names)
    assert first.train.task_names == again.train.task_names != other.train.task_names
    assert list(first.train.task_names) != sorted(first.train.task_names)


def test_an_order_that_follows_the_seed_is_that_of_the_same_number() -> None:
    tasks, follows = numbered(), replace(RULES, order="seed")
    orders = set()
    for seed in range(5):
        split, same = split_for(tasks, follows, seed), split_for(tasks, replace(RULES, order=seed))
        assert (split.train.task_names, split.test.task_names) == (same.train.task_names, same.test.task_names)
        orders.add((*split.train.task_names, "/", *split.test.task_names))
    assert len(orders) == 5
    assert_refused(lambda: split_for(tasks, follows), ["order", "seed"])


def test_all_tasks_may_train_and_their_test_rows_validate() -> None:
    tasks = numbered()
    split = split_for(tasks, replace(RULES, validation_tasks="all"))
    assert split.validation is not None
    assert split.train.task_names == split.validation.task_names == tasks.task_names[:4]
    assert split.test.task_names == tasks.task_names[4:]
    episode = Draw.test(split.validation, RULES).episode(jax.random.key(0), jnp.asarray(3), jnp.asarray(2))
    assert sorted(episode.val.x[:, 0].astype(int).tolist()) == tasks.test_rows[3].tolist(), "never trained on"
    assert set(episode.train.x[:, 0].astype(int).tolist()) <= set(tasks.train_rows[3].tolist())


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_zero_shots_have_the_share_that_is_asked_for(share: float) -> None:
    rules = replace(RULES, zero_shot_share=share, tasks_per_update=1000)
    counts = training(numbered(), rules, 4).train.count
    assert abs(float((counts == 0).mean()) - share) <= (0.08 if share == 0.5 else 0)  # five standard deviations
    for shots in range(1, 5):
        assert abs(float((counts == shots).mean()) - (1 - share) / 4) < 0.07


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        (TaskSet, {"max_shots": 10}, ["max_shots", "queries", "13", "12"]),
        (TaskSet, {"test_shots": (0, 13)}, ["test_shots", "13", "12"]),
        (TaskSet, {"test_queries": 6}, ["test_queries", "6", "5"]),
        (TaskSet, {"test_tasks": 3}, ["train_tasks 4", "test_tasks 3", "6 tasks"]),
        (TaskSet, {"train_tasks": 6}, ["train_tasks", "6"]),
        (TaskSet, {"validation_tasks": 4}, ["validation_tasks", "4"]),
        (TaskSet, {"ways": 2}, ["ways is 2", "None"]),
        (ClassTasks, {"ways": 2, "validation_tasks": "all"}, ["validation_tasks", "'all'", "test rows"]),
        (ClassTasks, {}, ["ways is None"]),
        (ClassTasks, {"ways": 3}, ["ways is 3", "only 1", "validation"]),
        (ClassTasks, {"ways": 3, "validation_tasks": 0}, ["ways is 3", "only 2", "test"]),
        (ClassTasks, {"ways": 2, "validation_tasks": 0, "test_queries": 9}, ["test_shots", "test_queries", "13", "12"]),
        (PairTasks, {}, ["validation", "one task"]),
    ],
    ids=str,
)
def test_rules_that_do_not_fit_the_tasks_are_refused(kind: Any, changes: dict[str, Any], words: list[str]) -> None:
    tasks = numbered(kind, 0 if kind is ClassTasks else TEST)
    assert_refused(lambda: split_for(tasks, replace(RULES, **changes)), words)


def test_a_task_in_two_parts_is_refused() -> None:
    tasks = numbered()
    assert_refused(lambda: Split(tasks.select([0, 2]), None, tasks.select([2, 3])), ["'task 2'", "in train", "in test"])
