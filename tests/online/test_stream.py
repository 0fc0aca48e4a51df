"""The stream: fixed by its key, separate from the test data, and refused where the tasks are too few."""

from __future__ import annotations

import hashlib
from typing import Any

import jax
import numpy as np
import pytest

from anyshot import load_tasks
from anyshot.errors import InputError
from anyshot.online import OnlineProtocol, make_stream
from anyshot.tasks import PairTasks, TaskSet
from tests.support.draws import draw_rules
from tests.support.online_cases import WORLD, assert_same_bits
from tests.support.refusals import assert_refused
from tests.support.tiny_tasks import regression, row_numbers

pytestmark = pytest.mark.usefixtures("quick_compilation")

# The sinusoid preset's numbers; the key is what runs of seed 0 use.
SINUSOID = OnlineProtocol(
    labels_per_arrival=2, steps_per_arrival=5, max_steps=100, measure="loss", threshold=0.3, max_shots=10
)
SEED_0 = jax.random.split(jax.random.key(0, impl="threefry2x32"), 3)[0]


def digest(rows: Any) -> str:
    return hashlib.sha256(np.asarray(rows, np.int32).tobytes()).hexdigest()[:16]


def test_the_stream_of_seed_0_is_what_version_0_1_gave() -> None:
    """The numbers are those of version 0.1.0: runs and results must stay comparable."""
    stream = make_stream(load_tasks("sinusoid").on_device(), SINUSOID, SEED_0)
    assert stream.order[:12].tolist() == [23, 5, 94, 93, 52, 41, 70, 62, 49, 90, 58, 61]
    assert stream.train_rows[0, :8].tolist() == [4642, 4619, 4610, 4600, 4630, 4635, 4603, 4662]
    assert stream.train_rows[1, :8].tolist() == [1012, 1089, 1004, 1019, 1028, 1003, 1088, 1029]
    assert stream.test_rows[0, :8].tolist() == [4735, 4729, 4793, 4700, 4721, 4758, 4713, 4705]
    assert stream.test_rows[99, -4:].tolist() == [3177, 3175, 3166, 3134]
    assert (digest(stream.order), stream.order.shape) == ("9512d97096880e82", (100,))
    assert (digest(stream.train_rows), stream.train_rows.shape) == ("0b64ec4d41f65f40", (100, 40))
    assert (digest(stream.test_rows), stream.test_rows.shape) == ("465b9d22033c00cf", (100, 100))


@pytest.mark.parametrize("num_tasks", [None, 3])
def test_tasks_come_in_the_given_order_unless_they_are_shuffled(num_tasks: int | None) -> None:
    tasks, rules = row_numbers(), draw_rules(num_tasks=num_tasks, shuffle_tasks=False)
    streams = [make_stream(tasks, rules, jax.random.key(seed)) for seed in (0, 1)]
    for stream in streams:
        assert stream.order.tolist() == list(range(num_tasks or 4))
        for position, rows in enumerate(stream.train_rows.tolist()):
            assert set(rows) <= set(tasks.train_rows[position].tolist())
    assert streams[0].train_rows.tolist() != streams[1].train_rows.tolist(), "datapoints are shuffled all the same"


@pytest.mark.parametrize("kind", [TaskSet, PairTasks])
def test_no_test_data_ever_arrives(kind: type[TaskSet]) -> None:
    stream = make_stream(row_numbers(kind), draw_rules(max_steps=8), WORLD)
    train_rows, test_rows = np.asarray(stream.train_rows), np.asarray(stream.test_rows)
    assert not set(train_rows.ravel().tolist()) & set(test_rows.ravel().tolist())
    for position, task in enumerate(np.asarray(stream.order)):
        for rows, allowed in ((train_rows, stream.tasks.train_rows), (test_rows, stream.tasks.test_rows)):
            first = rows[position][..., 0].ravel() if kind is PairTasks else rows[position]
            assert set(first.tolist()) <= set(np.asarray(allowed[task]).tolist())
    if kind is TaskSet:
        assert all(len(set(rows)) == len(rows) for rows in [*train_rows.tolist(), *test_rows.tolist()])


def test_a_stream_is_fixed_by_its_key_and_orders_tasks_at_random() -> None:
    protocol = draw_rules(num_tasks=3)
    streams = [make_stream(row_numbers(), protocol, jax.random.key(seed)) for seed in (0, 0, 1)]
    assert_same_bits(streams[0], streams[1])
    orders = {tuple(stream.order.tolist()) for stream in streams}
    assert len(orders) > 1
    assert all(len(set(order)) == 3 and set(order) <= set(range(4)) for order in orders)


# Refusals


class NeverDrawn(TaskSet):
    """Work has begun once rows are drawn."""

    def draw(self, *_: Any) -> Any:
        raise AssertionError("rows were drawn before the input was checked")


class PairsNeverDrawn(NeverDrawn):
    @property
    def unit(self) -> int:
        return 2


SIZES = ("labels_per_arrival", "max_shots", "validation_size", "test_size", "batch_size", "memory_per_task")


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (NeverDrawn, {"num_tasks": 5}),
        (NeverDrawn, {"pretrain_tasks": 4, "pretrain_steps": 1}),
        (NeverDrawn, {"test_size": 5}),
        (NeverDrawn, {"fresh_test": True, "test_size": 4}),
        (NeverDrawn, {"max_shots": 9}),
        (PairsNeverDrawn, {"borrow": True}),
        (PairsNeverDrawn, {"max_steps": 10**9}),
        *((PairsNeverDrawn, {name: 3}) for name in SIZES),
    ],
    ids=str,
)
def test_rules_that_do_not_fit_the_tasks_are_refused(kind: type[TaskSet], changes: dict[str, Any]) -> None:
    name, value = next(iter(changes.items()))
    assert_refused(lambda: make_stream(row_numbers(kind), draw_rules(**changes), WORLD), [name, str(value)])


def test_borrowing_in_a_regression_is_refused() -> None:
    assert_refused(lambda: make_stream(regression(), draw_rules(borrow=True), WORLD), ["borrow"])


def test_pairs_of_a_single_class_are_refused() -> None:
    tasks = row_numbers(PairTasks).select([1])
    with pytest.raises(InputError, match="single task"):
        make_stream(tasks, draw_rules(), WORLD)
