"""Tasks in which one sees what was drawn, and rules for them."""

from __future__ import annotations

import numpy as np

from anyshot.offline import OfflineProtocol
from anyshot.tasks import TaskSet
from anyshot.tasks.ways import ClassTasks

TASKS, TRAIN, TEST = 6, 12, 5
RULES = OfflineProtocol(
    steps=40,
    steps_per_trial=10,
    patience=2,
    tasks_per_update=4,
    max_shots=4,
    queries=3,
    validation_tasks=1,
    validation_episodes=2,
    test_shots=(0, 1, 4),
    test_queries=5,
)


def numbered(kind: type[TaskSet] = TaskSet, test: int = TEST) -> TaskSet:
    """Tasks whose inputs are the numbers of their rows; labels are 0, 1, 2, or of a class set the class."""
    rows = np.arange(TASKS * (TRAIN + test), dtype=np.int32).reshape(TASKS, -1)
    x = np.arange(rows.size, dtype=np.float32)[:, None]
    labels = np.repeat(np.arange(TASKS), TRAIN + test) if kind is ClassTasks else np.arange(rows.size) % 3
    names = tuple(f"task {number}" for number in range(TASKS))
    return kind("numbered", x, labels.astype(np.int32), rows[:, :TRAIN], rows[:, TRAIN:], names, train_tasks=4)
