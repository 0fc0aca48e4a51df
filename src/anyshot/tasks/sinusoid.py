"""Sine waves of different amplitude and phase: the regression everyone debugs a meta-learner with."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from anyshot.errors import InputError
from anyshot.tasks.built import Built
from anyshot.tasks.randomness import uniforms


def sinusoid(files: dict[str, Path], seed: int, *, tasks: int = 100, given: int = 100, held: int = 100) -> Built:
    """Y = A sin(x - p), A ~ U(0.1, 5), p ~ U(0, pi), x ~ U(-5, 5): the ranges of the MAML paper."""
    if tasks < 2 or given < 1 or held < 0:
        raise InputError(
            f"tasks must be at least 2, given at least 1, held at least 0; got {tasks}, {given} and {held}"
        )
    waves = [(0.1 + 4.9 * a, np.pi * p) for a, p in (uniforms(2, seed, "sinusoid", task) for task in range(tasks))]
    x = [10 * uniforms(given + held, seed, "sinusoid points", task) - 5 for task in range(tasks)]
    y = [amplitude * np.sin(points - phase) for (amplitude, phase), points in zip(waves, x, strict=True)]
    rows = np.arange(tasks * (given + held), dtype=np.int32).reshape(tasks, -1)
    arrays = {"x": np.concatenate(x), "y": np.concatenate(y)}
    columns = {name: array.astype(np.float32)[:, None] for name, array in arrays.items()}
    names = tuple(f"{amplitude:.2f} sin(x - {phase:.2f})" for amplitude, phase in waves)
    return Built(columns | {"given": rows[:, :given], "held": rows[:, given:]}, names, train_tasks=tasks * 4 // 5)
