"""Tiny task sets for the online loop."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from anyshot.tasks import PairTasks, TaskSet


@functools.cache
def classification() -> TaskSet:
    """Three classes around centres that every task moves a little, in four dimensions."""
    random, num_tasks, train, test = np.random.default_rng(0), 5, 8, 6
    y = np.tile([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1], num_tasks)
    centres, shifts = random.normal(size=(3, 4)), random.normal(size=(num_tasks, 4)).repeat(train + test, axis=0)
    x = 1.5 * centres[y] + 0.7 * shifts + 0.4 * random.normal(size=(len(y), 4))
    return _task_set(TaskSet, x, y.astype(np.int32), num_tasks, train)


@functools.cache
def regression() -> TaskSet:
    """Two numbers to predict: linear functions of four, which differ from task to task."""
    random, num_tasks, train, test = np.random.default_rng(1), 4, 5, 6
    x = random.normal(size=(num_tasks, train + test, 4))
    y = np.einsum("tni,tio->tno", x, random.normal(size=(num_tasks, 4, 2)))
    return _task_set(TaskSet, x.reshape(-1, 4), y.reshape(-1, 2), num_tasks, train)


@functools.cache
def pairs() -> TaskSet:
    """Which of two pairs of points in the plane are of one class?"""
    random, num_tasks = np.random.default_rng(2), 4
    y = np.arange(num_tasks, dtype=np.int32).repeat(6)
    x = random.normal(size=(num_tasks, 2))[y] + 0.3 * random.normal(size=(len(y), 2))
    return _task_set(PairTasks, x, y, num_tasks, 3)


@functools.cache
def row_numbers(kind: type[TaskSet] = TaskSet) -> TaskSet:
    """Examples that are their own row number, so that one sees what was drawn: 4 tasks of 8 and 4 test examples."""
    labels = np.arange(4, dtype=np.int32).repeat(12)
    return _task_set(kind, np.arange(48.0), labels, 4, 8)


def _task_set(kind: type[TaskSet], x: Any, y: Any, num_tasks: int, train: int) -> TaskSet:
    rows = np.arange(len(y)).reshape(num_tasks, -1)
    names = tuple(f"task {task}" for task in range(num_tasks))
    return kind(f"tiny {kind.__name__}", x, y, rows[:, :train], rows[:, train:], names).on_device()
