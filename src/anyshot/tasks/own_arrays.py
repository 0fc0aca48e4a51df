"""One pair of arrays per task, joined into the pool of a task set and split into train and test rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from anyshot.errors import InputError
from anyshot.inputs import check_numeric
from anyshot.tasks.randomness import check_seed, permutation


def join_arrays(tasks: Any) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """All inputs in one array, all labels in another, task after task, and the names of the tasks.

    Args:
        tasks: pairs (x, y) by the name of the task, or a sequence of pairs.
    """
    if isinstance(tasks, Mapping):
        named = {str(name): pair for name, pair in tasks.items()}
        if len(named) < len(tasks):
            raise InputError("tasks holds two names that are the same as strings; give every task a name of its own")
    elif isinstance(tasks, Sequence) and not isinstance(tasks, (str, bytes)):
        named = {f"task {number}": pair for number, pair in enumerate(tasks)}
    else:
        raise InputError(f"tasks must be a mapping or a sequence of pairs (x, y), got a {type(tasks).__name__}")
    if not named:
        raise InputError("tasks is empty; give one pair (x, y) per task")
    pairs = {name: _convert_pair(name, pair) for name, pair in named.items()}
    _check_alike(pairs)
    x, y = (np.concatenate([pair[part] for pair in pairs.values()]) for part in (0, 1))
    return x, y, tuple(pairs)


def split_rows(
    task_names: Sequence[str], rows_per_task: int, test_size: Any, seed: Any
) -> tuple[Int[np.ndarray, "tasks train"], Int[np.ndarray, "tasks test"]]:
    """Split the rows of each task at random. A task's split depends on its name and the seed, not on other tasks.

    >>> train_rows, test_rows = split_rows(["a", "b"], 4, test_size=1, seed=0)
    >>> print(train_rows.tolist(), test_rows.tolist())
    [[2, 3, 1], [5, 7, 4]] [[0], [6]]
    """
    check_seed("seed", seed)
    test = _count_test_rows(test_size, rows_per_task)
    rows = np.stack(
        [
            number * rows_per_task + permutation(rows_per_task, seed, "own tasks", name)
            for number, name in enumerate(task_names)
        ]
    )
    return rows[:, test:], rows[:, :test]


def _convert_pair(name: str, pair: Any) -> tuple[np.ndarray, np.ndarray]:
    """A task's arrays; labels that are booleans become the classes 0 and 1."""
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise InputError(f"task {name!r} must be a pair of arrays (x, y), got a {type(pair).__name__}")
    arrays = []
    for part, values in zip(("x", "y"), pair, strict=True):
        try:
            array = np.asarray(values)
        except ValueError as error:
            raise InputError(f"{part} of task {name!r} has rows of different shapes; give one array") from error
        check_numeric(f"{part} of task {name!r}", array)
        if array.ndim == 0:
            raise InputError(f"{part} of task {name!r} must have one row per example, got the single value {array}")
        arrays.append(array)
    x, y = arrays
    if len(x) != len(y) or not len(x):
        raise InputError(f"x and y of task {name!r} must have one row per example, got shapes {x.shape} and {y.shape}")
    return x, y.astype(np.int32) if y.dtype == bool else y


def _check_alike(pairs: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """All tasks must have the same number of rows, and examples of one shape and kind."""
    (first, (x, y)), *others = pairs.items()
    for name, (other_x, other_y) in others:
        if len(other_x) != len(x):
            raise InputError(
                f"task {first!r} has {len(x)} rows, but task {name!r} has {len(other_x)}; all tasks need the same "
                "number of rows in this version"
            )
        for part, mine, other in (("x", x, other_x), ("y", y, other_y)):
            if other.shape != mine.shape:
                raise InputError(
                    f"{part} of task {first!r} has shape {mine.shape}, but that of task {name!r} has {other.shape}; "
                    "examples of all tasks must have the same shape"
                )
            # Joined, integers would become floats: images would no longer be scaled, labels no longer be classes.
            if np.issubdtype(other.dtype, np.inexact) != np.issubdtype(mine.dtype, np.inexact):
                raise InputError(
                    f"{part} of task {first!r} is {mine.dtype}, but that of task {name!r} is {other.dtype}; "
                    "convert one of them"
                )


def _count_test_rows(test_size: Any, rows_per_task: int) -> int:
    whole, share = (isinstance(test_size, kind) and not isinstance(test_size, bool) for kind in (int, float))
    if not (whole and test_size >= 0) and not (share and 0 <= test_size < 1):
        raise InputError(
            f"test_size must be a number of rows (int of at least 0) or a share of them (float of at least 0 and below "
            f"1), got {test_size!r}"
        )
    test = test_size if whole else round(test_size * rows_per_task)
    if test >= rows_per_task:
        raise InputError(
            f"test_size is {test_size}, which leaves none of the {rows_per_task} rows of a task to train on; lower it"
        )
    return int(test)
