"""Bad input to a task set gets one sentence that names the argument and the value."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anyshot.errors import InputError
from anyshot.tasks import ClassTasks, PairTasks, TaskSet
from tests.support.task_sets import KEY, make_toy
from tests.tasks.test_own_arrays import Frame

NOT_A_TASK = (np.array([1, 2]), jnp.array([1, 2]), jnp.array(1.0), True, np.bool_(True), 1.5, None, "a")


def change(**fields: Any) -> TaskSet:
    """A toy task set with other fields, its content checked as that of a new one."""
    return dataclasses.replace(make_toy(), **{"fingerprint": "", **fields})


def uneven(kind: type[TaskSet] = TaskSet) -> TaskSet:
    return dataclasses.replace(make_toy(kind), train_counts=(6, 3, 1, 6, 2), test_counts=(2, 4, 4, 0, 1))


def change_one(value: float) -> np.ndarray:
    x = np.zeros(50)
    x[7] = value
    return x


@pytest.mark.usefixtures("without_types")
@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda: make_toy().draw(KEY, 0, 7), ["count", "7", "toy", "6 train rows"]),
        (lambda: make_toy().draw(KEY, 0, 5, "test"), ["count", "5", "toy", "4 test rows"]),
        (lambda: make_toy().draw(KEY, 5, 1), ["task is 5", "0..4"]),
        (lambda: make_toy().draw(KEY, 0, -1), ["count", "-1"]),
        (lambda: make_toy().draw(KEY, 0, 1, "given"), ["part", "'train' or 'test'", "'given'"]),
        *[
            (lambda kind=kind, task=task: make_toy(kind).draw(KEY, task, 2), ["task", "whole number"])
            for kind in (TaskSet, PairTasks)
            for task in NOT_A_TASK
        ],
        (lambda: jax.vmap(lambda task: make_toy().draw(KEY, task, 2))(jnp.ones((2, 2), int)), ["task", "whole number"]),
        (lambda: jax.jit(lambda task: make_toy(PairTasks).draw(KEY, task, 2))(1.0), ["task", "whole number"]),
        (lambda: make_toy().shots(KEY, 0, 5, size=4), ["count", "5", "4"]),
        (lambda: make_toy().shots(KEY, 0, -1, size=4), ["count", "-1"]),
        (lambda: make_toy().shots(KEY, 0, 2.7), ["count", "2.7"]),
        (lambda: jax.jit(lambda count: make_toy().shots(KEY, 0, count))(2), ["size", "count is traced"]),
        (lambda: make_toy().select([]), ["tasks", "empty"]),
        (lambda: make_toy().select([0, 5]), ["tasks", "5", "0..4"]),
        (lambda: make_toy().select([True, False]), ["tasks", "bool"]),
        (lambda: make_toy().select(np.arange(5) < 2), ["tasks", "bool"]),
        (lambda: make_toy().select(np.array([1.7])), ["tasks", "float64"]),
        (lambda: make_toy().select([3, 1, 3]), ["tasks", "3 twice"]),
        (lambda: make_toy().select([0, 1]).offline_split(), ["toy", "2 of 2 tasks"]),
        (lambda: change(x=[[1.0]] * 50), ["x", "list"]),
        (lambda: change(x=Frame(np.zeros((50, 2)))), ["x", "Frame", "np.asarray"]),
        (lambda: change(y=Frame(np.zeros(50))), ["y", "Frame"]),
        (lambda: change(y=np.array(["a"] * 50)), ["y", "<U1"]),
        (lambda: change(y=np.zeros(49)), ["x and y", "(50,)", "(49,)"]),
        (lambda: change(x=np.float64(1.0)), ["x", "float64"]),
        (lambda: change(x=np.array(1.0)), ["x and y", "()"]),
        *[(lambda value=value: change(x=change_one(value)), ["x", "(7,)"]) for value in (np.nan, np.inf, -np.inf)],
        (lambda: change(x=jnp.asarray(change_one(np.nan))), ["x", "(7,)"]),
        (lambda: change(y=change_one(np.nan)), ["y", "(7,)"]),
        (lambda: change(y=change_one(-1).astype(int)), ["y", "-1"]),
        (lambda: change(train_rows=np.zeros(5, int)), ["train_rows", "int64", "(5,)"]),
        (lambda: change(test_rows=np.ones((5, 1))), ["test_rows", "float64", "(5, 1)"]),
        (lambda: change(train_rows=np.zeros((5, 0), int)), ["train_rows", "at least one"]),
        (lambda: change(test_rows=np.zeros((4, 0), int)), ["test_rows", "4 tasks", "5"]),
        (lambda: change(test_rows=np.full((5, 1), 50)), ["test_rows", "50", "0..49"]),
        (lambda: change(train_rows=np.full((5, 1), -1)), ["train_rows", "-1", "0..49"]),
        (lambda: change(train_rows=np.array([[11]] * 5)[:, [0, 0]]), ["row 11", "task 0"]),
        (lambda: change(test_rows=np.arange(5)[:, None] * 10 + 3), ["row 3", "train_rows and test_rows", "task 0"]),
        (lambda: change(train_counts=(6, 5)), ["train_counts", "5 whole numbers", "1 to 6", "(6, 5)"]),
        (lambda: change(train_counts=(6, 5, 4, 3, 0)), ["train_counts", "1 to 6"]),
        (lambda: change(test_counts=(4, 4, 4, 4, 5)), ["test_counts", "0 to 4"]),
        (lambda: change(train_counts=[6, 5, 4, 3, 2]), ["train_counts", "tuple"]),
        (lambda: change(train_rows=np.array([[1, 1]] * 5), train_counts=(1, 1, 1, 1, 2)), ["row 1", "task 4"]),
        (lambda: change(class_names=("a", "b", "c", "d")), ["class_names", "4 names", "4"]),
        (lambda: change(y=np.zeros(50), class_names=("a",)), ["class_names", "1 names"]),
        (lambda: uneven().draw(KEY, 1, 4), ["count is 4", "task 1 of toy", "3 train rows"]),
        (lambda: uneven().draw(KEY, 0, 3, "test"), ["count is 3", "task 0 of toy", "2 test rows"]),
        (lambda: jax.vmap(lambda task: uneven().draw(KEY, task, 2))(jnp.arange(5)), ["smallest", "1 train rows"]),
        (lambda: uneven().shots(KEY, 1, 4), ["count is 4", "3 examples"]),
        (lambda: uneven().shots(KEY, 1, 4, size=6), ["count is 4", "3 examples"]),
        (lambda: uneven().shots(KEY, 1, 2, size=7), ["size is 7", "6 train rows"]),
        (lambda: uneven(ClassTasks), ["ClassTasks", "same number of rows"]),
        (lambda: make_toy(PairTasks).task_classes, ["toy", "no classes"]),
        (lambda: change(name=5), ["name", "5"]),
        (
            lambda: change(task_names=(), train_rows=np.zeros((0, 1), int), test_rows=np.zeros((0, 1), int)),
            ["task_names", "at least one"],
        ),
        (lambda: change(task_names="abcde"), ["task_names", "abcde"]),
        (lambda: change(task_names=("a", "b", "c", "d", 5)), ["task_names", "5"]),
        (lambda: change(task_names=("a", "b", "c", "b", "d")), ["task_names", "'b'"]),
        (lambda: change(task_names=("a", "b", "c", "d", "e\x1b[2J")), ["task_names", r"\x1b"]),
        (lambda: change(task_names=("a", "b", "c", "d", "e\ntask f")), ["task_names", r"\n"]),
        (lambda: change(train_tasks=6), ["train_tasks", "0..5", "6"]),
        (lambda: change(train_tasks=True), ["train_tasks", "True"]),
        (lambda: make_toy(ClassTasks).episode(KEY, 6, 1, 1), ["ways", "6", "5 classes"]),
        (lambda: make_toy(ClassTasks).episode(KEY, 0, 1, 1), ["ways", "at least 1", "0"]),
        (lambda: make_toy(ClassTasks).episode(KEY, 2, 5, 2), ["shots", "7 examples", "6"]),
        (lambda: make_toy(PairTasks, train=1).draw(KEY, 0, 2), ["2 images", "toy", "1 train rows"]),
    ],
)
def test_bad_input_gets_one_sentence(call: Any, parts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    assert all(part in message for part in parts), message
    assert "\n" not in message
    assert len(message) < 300


def test_a_toy_set_passes_the_same_checks() -> None:
    assert change().fingerprint
    assert change(x=change_one(1e308), y=-change_one(1.5)).fingerprint, "targets of a regression may be negative"
