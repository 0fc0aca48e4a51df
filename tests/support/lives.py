"""Small lives: a folder with a learner that compiles quickly, and tasks to observe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from anyshot.lifelong import Lifelong

TINY: dict[str, Any] = {
    "network": {"kind": "mlp", "hidden": [4]},
    "max_shots": 4,
    "tasks_per_update": 2,
    "meta_rate": 1e-2,
    "features": 4,
}


def make_life(folder: Path, **changes: Any) -> Lifelong:
    """A folder with a small network on three numbers."""
    return Lifelong(folder, **{**TINY, **changes})


def draw_task(seed: int, count: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Points in space, and on which side of a plane they are."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(count, 3)).astype(np.float32)
    return x, np.where(x @ draw.normal(1.0, 0.5, 3) > 0, "yes", "no")
