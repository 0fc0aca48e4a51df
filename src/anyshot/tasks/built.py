"""The plain arrays of a task set, as its builder returns them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyshot.tasks.fingerprint import hash_arrays


@dataclass(frozen=True)
class Built:
    """A task set before it becomes a `TaskSet`. Nothing here needs JAX.

    Attributes:
        arrays: `x` and `y` with one row per example, `train_rows` and `test_rows` with one row per task; some sets add
            `source`, the number of the original image that each example was made from.
        task_names: one name per task.
        train_tasks: offline split: the first `train_tasks` tasks are for meta-training; 0 if there is no split.
    """

    arrays: dict[str, np.ndarray]
    task_names: tuple[str, ...]
    train_tasks: int = 0

    def fingerprint(self) -> str:
        """The SHA-256 of everything in it; reads all arrays."""
        return hash_arrays(self.arrays, self.task_names, self.train_tasks)
