"""Writing tasks into a folder of shards, one task after another."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from anyshot.atomic import unfinished_folder
from anyshot.errors import DataError, InputError
from anyshot.folders import check_folder
from anyshot.inputs import check_finite, check_numeric
from anyshot.tasks.fingerprint import array_sha256
from anyshot.tasks.rows import PARTS
from anyshot.tasks.stored import FORMAT, MANIFEST, StoredTasks, fingerprint_of, shard_name
from anyshot.tasks.taskset import TaskSet

SHARD_BYTES = 256 * 2**20
NamedTask = tuple[str, tuple[Any, Any], tuple[Any, Any]]


def write_tasks(
    folder: str | Path, tasks: TaskSet | Iterable[NamedTask], *, name: str = "own tasks", shard_bytes: int = SHARD_BYTES
) -> StoredTasks:
    """Write tasks into a new folder, to be drawn from without being loaded. One shard is in memory at a time.

    Args:
        folder: new or empty. It is there once all tasks are written.
        tasks: (name, (x, y), (test_x, test_y)) for each task, such as from a generator; or a `TaskSet`. Labels are
            classes 0, 1, ... (integers) or targets (floats).
        name: of the task set; a `TaskSet` keeps its own.
        shard_bytes: the size from which on a shard is closed.

    >>> import tempfile
    >>> x, y = np.zeros((6, 3), np.float32), np.arange(6) % 2
    >>> with tempfile.TemporaryDirectory() as place:
    ...     made = ((f"task {n}", (x + n, y), (x[:2], y[:2])) for n in range(1000))
    ...     stored = write_tasks(place + "/tasks", made)
    ...     print(stored.num_tasks, stored.counts("train")[:2], stored.read(np.array([7]), np.array([5])))
    1000 [6 6] (array([[7., 7., 7.]], dtype=float32), array([1]))
    """
    place = check_folder("folder", folder)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise InputError(f"folder must be new or empty, but {place} is not")
    if isinstance(shard_bytes, bool) or not isinstance(shard_bytes, int) or shard_bytes < 1:
        raise InputError(f"shard_bytes must be a whole number of at least 1, got {shard_bytes!r}")
    if not isinstance(name, str):
        raise InputError(f"name must be a string, got {name!r}")
    if not isinstance(tasks, TaskSet) and (isinstance(tasks, str) or not isinstance(tasks, Iterable)):
        raise InputError(
            f"tasks must be a TaskSet, or give (name, (x, y), (test_x, test_y)) for each task, got {tasks!r}"
        )
    if isinstance(tasks, TaskSet):
        name, tasks = tasks.name, _list_tasks(tasks)
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        with unfinished_folder(place.parent) as unfinished:
            new = unfinished / "new"
            new.mkdir()
            _write_shards(new, tasks, name, shard_bytes)
            if place.exists():
                place.rmdir()
            new.replace(place)
    except OSError as error:
        raise DataError(f"cannot write the tasks into {place}: {error.strerror or error}") from error
    return StoredTasks(place)


def _list_tasks(tasks: TaskSet) -> Iterator[NamedTask]:
    if tasks.unit > 1:
        raise InputError(f"{tasks.name} makes pairs as they are needed, which cannot be stored; store its examples")
    for task, task_name in enumerate(tasks.task_names):
        train, test = (tasks.look_up(tasks.rows_of(task, part)) for part in PARTS)
        yield task_name, train, test


def _write_shards(folder: Path, tasks: Iterable[NamedTask], name: str, shard_bytes: int) -> None:
    hashes: list[dict[str, str]] = []
    classes, size, shard = 0, 0, _empty_shard()
    example: Any = None

    def close() -> None:
        nonlocal size, shard
        joined = {key: np.concatenate(parts) if key in "xy" else np.array(parts) for key, parts in shard.items()}
        hashes.append(_write_shard(folder / shard_name(len(hashes)), joined))
        size, shard = 0, _empty_shard()

    for number, task in enumerate(tasks):
        task_name, train, test = _unpacked(number, task)
        x, y = _joined(task_name, train, test)
        kind = (x.shape[1:], x.dtype, y.shape[1:], y.dtype)
        example = example or kind
        if kind != example:
            raise InputError(f"task {task_name!r} has examples of shape and dtype {kind}, those before had {example}")
        if np.issubdtype(y.dtype, np.integer):
            classes = max(classes, int(y.max()) + 1)
        for key, value in (("x", x), ("y", y), ("names", task_name)):
            shard[key].append(value)
        shard["train_counts"].append(np.int32(len(train[0])))
        shard["test_counts"].append(np.int32(len(test[0])))
        size += x.nbytes + y.nbytes
        if size >= shard_bytes:
            close()
    if shard["x"]:
        close()
    if not hashes:
        raise InputError("tasks is empty; a task set needs at least one task")
    manifest = {
        "format": FORMAT,
        "name": name,
        "num_classes": classes,
        "shards": hashes,
        "fingerprint": fingerprint_of(hashes, name),
    }
    _write_durably(folder / MANIFEST, json.dumps(manifest, indent=1).encode())


def _empty_shard() -> dict[str, list[Any]]:
    return {key: [] for key in ("x", "y", "names", "train_counts", "test_counts")}


def _unpacked(number: int, task: Any) -> NamedTask:
    """The parts of a task, if it has them."""
    right = isinstance(task, tuple | list) and len(task) == 3
    right = right and all(isinstance(part, tuple | list) and len(part) == 2 for part in task[1:])
    if not right or any(array is None for part in task[1:] for array in part):
        raise InputError(
            f"tasks must give (name, (x, y), (test_x, test_y)) for each task, but task {number} is {_describe(task)}"
        )
    if not isinstance(task[0], str):
        raise InputError(f"the name of task {number} must be a string, got {task[0]!r}")
    name, train, test = task
    return name, tuple(train), tuple(test)


def _describe(value: Any) -> str:
    """The form of a value, without its numbers.

    >>> _describe(("a", (np.zeros((2, 3)), None)))
    "('a', (array of shape (2, 3), None))"
    """
    if isinstance(value, tuple | list):
        return f"({', '.join(_describe(part) for part in value[:4])}{', ...' * (len(value) > 4)})"
    return f"array of shape {value.shape}" if hasattr(value, "shape") else f"{value!r:.60}"


def _joined(task_name: str, train: tuple[Any, Any], test: tuple[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The train rows and behind them the test rows of a task, checked."""
    try:
        arrays = [np.asarray(array) for array in (*train, *test)]
    except ValueError as error:  # lists whose rows have different lengths
        raise InputError(f"task {task_name!r} cannot be made into arrays: {error}") from error
    for what, array in zip(("x", "y", "test_x", "test_y"), arrays, strict=True):
        check_numeric(f"{what} of task {task_name!r}", array)
        check_finite(f"{what} of task {task_name!r}", array)
    for x, y in (arrays[:2], arrays[2:]):
        if x.ndim == 0 or y.ndim == 0 or len(x) != len(y):
            raise InputError(
                f"task {task_name!r} must have a row of x and of y for each example, got {x.shape}, {y.shape}"
            )
    if not len(arrays[0]):
        raise InputError(f"task {task_name!r} has no example to train on; every task needs at least one")
    for what, train_part, test_part in (("x", arrays[0], arrays[2]), ("y", arrays[1], arrays[3])):
        if train_part.shape[1:] != test_part.shape[1:]:
            raise InputError(
                f"task {task_name!r} has {what} of shape {train_part.shape} and test_{what} of {test_part.shape}: "
                "each example must have the same shape"
            )
    x, y = np.concatenate(arrays[::2]), np.concatenate(arrays[1::2])
    y = y.astype(np.int32) if y.dtype == np.bool_ else y
    if np.issubdtype(y.dtype, np.integer) and y.min() < 0:
        raise InputError(f"task {task_name!r} has the label {y.min()}; integer labels are classes 0, 1, ...")
    return x, y


def _write_shard(folder: Path, arrays: dict[str, np.ndarray]) -> dict[str, str]:
    folder.mkdir()
    for key, array in arrays.items():
        with (folder / f"{key}.npy").open("wb") as file:
            np.lib.format.write_array(file, array, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
    return {key: array_sha256(array) for key, array in arrays.items()}


def _write_durably(place: Path, data: bytes) -> None:
    with place.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
