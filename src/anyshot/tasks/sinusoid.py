"""Sine waves of different amplitude and phase, the usual toy regression of meta-learning."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from anyshot.errors import InputError
from anyshot.limits import check_whole
from anyshot.tasks.built import Built
from anyshot.tasks.randomness import uniforms

MAX_TASKS = 100_000
MAX_POINTS = 10_000_000  # of all tasks together


def check_sinusoid(num_tasks: int, train_rows: int, test_rows: int) -> None:
    """Raise `InputError` for settings that are out of range."""
    check_whole("num_tasks", num_tasks, 2, MAX_TASKS)
    check_whole("train_rows", train_rows, 1, MAX_POINTS)
    check_whole("test_rows", test_rows, 0, MAX_POINTS)
    points = num_tasks * (train_rows + test_rows)
    if points > MAX_POINTS:
        raise InputError(
            f"num_tasks x (train_rows + test_rows) must be at most {MAX_POINTS:,}, "
            f"got {num_tasks} x ({train_rows} + {test_rows})"
        )


def sinusoid(
    files: dict[str, Path], seed: int, *, num_tasks: int = 100, train_rows: int = 100, test_rows: int = 100
) -> Built:
    """Build y = A sin(x - p) with A ~ U(0.1, 5), p ~ U(0, pi), x ~ U(-5, 5), the ranges of the MAML paper.

    Args:
        files: none.
        seed: of the waves and their points.
        num_tasks: sine waves.
        train_rows: points of each wave to train on.
        test_rows: points of each wave to test on.
    """
    check_sinusoid(num_tasks, train_rows, test_rows)
    per_task = train_rows + test_rows
    draws = (uniforms(2, seed, "sinusoid", task) for task in range(num_tasks))
    waves = [(0.1 + 4.9 * amplitude, np.pi * phase) for amplitude, phase in draws]
    x = [10 * uniforms(per_task, seed, "sinusoid points", task) - 5 for task in range(num_tasks)]
    y = [amplitude * np.sin(points - phase) for (amplitude, phase), points in zip(waves, x, strict=True)]
    rows = np.arange(num_tasks * per_task, dtype=np.int32).reshape(num_tasks, per_task)
    pool = {"x": np.concatenate(x), "y": np.concatenate(y)}
    arrays = {name: values.astype(np.float32)[:, None] for name, values in pool.items()}
    parts = {"train_rows": rows[:, :train_rows], "test_rows": rows[:, train_rows:]}
    names = tuple(f"{amplitude:.2f} sin(x - {phase:.2f})" for amplitude, phase in waves)
    return Built(arrays | parts, names, train_tasks=num_tasks * 4 // 5)
