"""What a `TaskSet` accepts. Each check raises `InputError` with one sentence."""

from __future__ import annotations

import unicodedata
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anyshot.errors import InputError
from anyshot.inputs import check_finite, check_numeric


def check_structure(name: Any, task_names: Any, arrays: dict[str, Any], counts: dict[str, Any]) -> None:
    """Types, shapes and row numbers. Does not read the values of `x` and `y`, which may be gigabytes on a disk.

    Args:
        name: of the task set.
        task_names: one name per task.
        arrays: `x`, `y`, `train_rows` and `test_rows`.
        counts: for `train_rows` and `test_rows`, how many rows of each task are not padding; None means all.
    """
    if not isinstance(name, str):
        raise InputError(f"name must be a string, got {name!r}")
    if not isinstance(task_names, tuple) or not all(isinstance(task, str) for task in task_names):
        raise InputError(f"task_names must be a tuple of strings, one per task, got {str(task_names)[:200]}")
    if not task_names:
        raise InputError("task_names is empty; a task set needs at least one task")
    for array_name, array in arrays.items():
        if not isinstance(array, (np.ndarray, jax.Array)):
            kind = type(array).__name__
            raise InputError(f"{array_name} must be a NumPy or JAX array, got a {kind}; convert it with np.asarray")
        check_numeric(array_name, array)
    x, y = arrays["x"], arrays["y"]
    if x.ndim == 0 or y.ndim == 0 or x.shape[0] != y.shape[0]:
        raise InputError(f"x and y must have one row per example, got shapes {x.shape} and {y.shape}")
    for part in ("train_rows", "test_rows"):
        _check_rows(part, arrays[part], len(x), len(task_names))
        _check_counts(part, counts[part], arrays[part].shape[1], len(task_names))
    if arrays["train_rows"].shape[1] == 0:
        raise InputError("train_rows has no column; every task needs at least one example to train on")
    _check_disjoint([_without_padding(arrays[part], counts[part]) for part in counts], task_names)


def check_content(
    task_names: tuple[str, ...], arrays: dict[str, np.ndarray], train_tasks: Any, class_names: tuple[Any, ...] | None
) -> None:
    """The values of a set of the user's own: names, the offline split, and the numbers in `x` and `y`."""
    for task_name in task_names:
        # A line break would also let two different lists of names have the same fingerprint.
        if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in task_name):
            raise InputError(f"task_names holds {task_name!r}; remove control characters and line breaks")
    task_name, count = Counter(task_names).most_common(1)[0]
    if count > 1:
        raise InputError(f"task_names holds {task_name!r} {count} times; give every task a name of its own")
    if isinstance(train_tasks, bool) or not isinstance(train_tasks, int) or not 0 <= train_tasks <= len(task_names):
        raise InputError(f"train_tasks must be a whole number 0..{len(task_names)}, got {train_tasks!r}")
    for array_name in ("x", "y"):
        check_finite(array_name, arrays[array_name])
    y = arrays["y"]
    if np.issubdtype(y.dtype, np.integer) and y.size and y.min() < 0:
        raise InputError(
            f"y holds the label {y.min()}; integer labels are classes 0, 1, ...; for a regression convert y to float"
        )
    if class_names is not None and y.size and not (np.issubdtype(y.dtype, np.integer) and y.max() < len(class_names)):
        raise InputError(f"class_names has {len(class_names)} names, but y holds {y.max()}; name the classes 0, 1, ...")


def check_numbers(name: str, tasks: np.ndarray, num_tasks: int) -> None:
    """The numbers of tasks to select: whole, in range, each once."""
    if not tasks.size:
        raise InputError("tasks is empty; select at least one task")
    if tasks.ndim != 1 or not np.issubdtype(tasks.dtype, np.integer):
        raise InputError(f"tasks must be the numbers of tasks, got {tasks.dtype} of shape {tasks.shape}")
    if tasks.min() < 0 or tasks.max() >= num_tasks:
        wrong = int(tasks.min() if tasks.min() < 0 else tasks.max())
        raise InputError(f"tasks holds {wrong}, but {name} has tasks 0..{num_tasks - 1}")
    values, counts = np.unique(tasks, return_counts=True)
    if counts.max() > 1:
        raise InputError(f"tasks holds {values[counts > 1][0]} twice; select every task once")


def check_integer(name: str, value: Any) -> None:
    """A single whole number, traced or not."""
    plain = isinstance(value, int) and not isinstance(value, bool)
    if not plain and not (getattr(value, "shape", None) == () and jnp.issubdtype(value.dtype, jnp.integer)):
        raise InputError(f"{name} must be a single whole number, got {value!r}")


def _check_rows(part: str, rows: Any, examples: int, num_tasks: int) -> None:
    if rows.ndim != 2 or not jnp.issubdtype(rows.dtype, jnp.integer):
        raise InputError(
            f"{part} must hold rows of x, whole numbers in a line per task, got {rows.dtype} of shape {rows.shape}"
        )
    if rows.shape[0] != num_tasks:
        raise InputError(f"{part} has rows for {rows.shape[0]} tasks, but task_names names {num_tasks}")
    if isinstance(rows, np.ndarray) and rows.size and (rows.min() < 0 or rows.max() >= examples):
        wrong = rows.min() if rows.min() < 0 else rows.max()
        raise InputError(f"{part} holds row {wrong}, but x has rows 0..{examples - 1}")


def _check_counts(part: str, counts: Any, columns: int, num_tasks: int) -> None:
    if counts is None:
        return
    name, least = part.replace("rows", "counts"), int(part == "train_rows")
    whole = isinstance(counts, tuple) and all(type(count) is int and least <= count <= columns for count in counts)
    if not whole or len(counts) != num_tasks:
        raise InputError(
            f"{name} must be a tuple of {num_tasks} whole numbers from {least} to {columns}, one per task, "
            f"got {str(counts)[:100]}"
        )


def _without_padding(rows: Any, counts: tuple[int, ...] | None) -> Any:
    """The rows with -1 in place of padding."""
    if counts is None or not isinstance(rows, np.ndarray):
        return rows
    return np.where(np.arange(rows.shape[1]) < np.asarray(counts)[:, None], rows, -1)


def _check_disjoint(parts: list[Any], task_names: tuple[str, ...]) -> None:
    if not all(isinstance(rows, np.ndarray) for rows in parts):
        return
    rows = np.sort(np.concatenate(parts, axis=1), axis=1)
    twice = np.argwhere((rows[:, 1:] == rows[:, :-1]) & (rows[:, 1:] >= 0))
    if twice.size:
        task, column = twice[0]
        raise InputError(
            f"row {rows[task, column]} is twice in train_rows and test_rows of task {task} ({task_names[task]}); "
            "use each example of a task once"
        )
