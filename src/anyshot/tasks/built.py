"""What building a task set gives: plain arrays, before anything of JAX is touched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Built:
    """Arrays `x`, `y` (one row per example), `given`, `held` (rows of each task), and others for reference.

    `source` is where it applies: which image of the original data set an example was made of.
    """

    arrays: dict[str, np.ndarray]
    task_names: tuple[str, ...]
    train_tasks: int = 0  # offline split: the first so many tasks are for meta-training
