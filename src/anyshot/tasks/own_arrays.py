"""Inputs and labels of each task, joined into the pool of a task set and split into train and test rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int

from anyshot.errors import InputError
from anyshot.inputs import check_numeric
from anyshot.tasks.labels import Label, ReadLabels, number_classes, read_labels
from anyshot.tasks.randomness import check_seed, permutation


@dataclass(frozen=True)
class SplitRows:
    """The rows of each task in the pool of all tasks. Short lines are padded with rows of the same task.

    Attributes:
        train_rows: rows to train on, one line per task.
        test_rows: rows to test on, one line per task.
        train_counts: how many of a task's train rows are not padding; None if no line is padded.
        test_counts: the same for the test rows.
    """

    train_rows: Int[np.ndarray, "tasks train"]
    test_rows: Int[np.ndarray, "tasks test"]
    train_counts: tuple[int, ...] | None
    test_counts: tuple[int, ...] | None


@dataclass(frozen=True)
class OwnArrays:
    """Tasks of the user's own, as fields of a `TaskSet`.

    Attributes:
        x: the inputs of all tasks, task after task; only of examples that have a label.
        y: their labels; numbers of classes, or targets.
        class_names: the names of the classes; None if they are numbers 0..C-1, or if there are no classes.
        unlabelled: how many examples of each task were left out because they have no label.
    """

    x: np.ndarray
    y: np.ndarray
    class_names: tuple[Label, ...] | None
    unlabelled: tuple[int, ...]


def name_tasks(argument: str, tasks: Any, item: str) -> dict[str, Any]:
    """What is given for each task by the name of the task. Those of a sequence are called "task 0" and so on.

    Args:
        argument: its name, for sentences.
        tasks: a mapping or a sequence.
        item: what is given for each task, in words.
    """
    if isinstance(tasks, Mapping):
        named = {str(name): pair for name, pair in tasks.items()}
        if len(named) < len(tasks):
            raise InputError(
                f"{argument} holds two names that are the same as strings; give every task a name of its own"
            )
    elif isinstance(tasks, Sequence) and not isinstance(tasks, (str, bytes)):
        named = {f"task {number}": pair for number, pair in enumerate(tasks)}
    else:
        raise InputError(f"{argument} must be a mapping or a sequence of {item}s, got a {type(tasks).__name__}")
    if not named:
        raise InputError(f"{argument} is empty; give one {item} per task")
    return named


def read_pairs(
    tasks: Any, encode: Callable[[Any], np.ndarray] | None = None
) -> tuple[dict[str, np.ndarray], dict[str, ReadLabels]]:
    """The inputs and the labels of each task; inputs without a label are left out.

    Args:
        tasks: pairs (x, y) by the name of the task, or a sequence of pairs.
        encode: makes an array of the inputs of a task; by default they are arrays already.
    """
    inputs, labels = {}, {}
    for name, pair in name_tasks("tasks", tasks, "pair (x, y)").items():
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise InputError(f"task {name!r} must be a pair of arrays (x, y), got a {type(pair).__name__}")
        x = _read_inputs(f"x of task {name!r}", encode(pair[0]) if encode else pair[0])
        labels[name] = read_task_labels(name, pair[1], len(x), x.shape)
        inputs[name] = x if labels[name].labelled.all() else x[labels[name].labelled]
    return inputs, labels


def read_task_labels(name: str, labels: Any, examples: int, shape: tuple[int, ...]) -> ReadLabels:
    """The labels of a task, one for each example, and at least one that is not missing.

    Args:
        name: of the task.
        labels: as the user has them.
        examples: the number of examples of the task.
        shape: of its inputs, for the sentence.
    """
    read = read_labels(f"y of task {name!r}", labels)
    if len(read.labelled) != examples or not examples:
        found = (len(read.labelled), *read.values.shape[1:])
        raise InputError(f"x and y of task {name!r} must have one row per example, got shapes {shape} and {found}")
    if not read.labelled.any():
        raise InputError(f"y of task {name!r} has no label, all {examples} are missing; leave the task out")
    return read


def join_arrays(inputs: Mapping[str, np.ndarray], labels: Mapping[str, ReadLabels]) -> OwnArrays:
    """All inputs in one array and all labels in another, task after task."""
    _check_alike("x", dict(inputs))
    _check_alike("y", {name: read.values for name, read in labels.items()})
    values = [read.values for read in labels.values()]
    y, names = number_classes(values) if next(iter(labels.values())).are_classes else (np.concatenate(values), None)
    unlabelled = tuple(int((~read.labelled).sum()) for read in labels.values())
    return OwnArrays(np.concatenate(list(inputs.values())), y, names.names if names else None, unlabelled)


def split_rows(task_names: Sequence[str], counts: Sequence[int], test_size: Any, seed: Any) -> SplitRows:
    """Split the rows of each task at random. A task's split depends on its name and the seed, not on other tasks.

    Args:
        task_names: one name per task.
        counts: the number of examples of each task.
        test_size: how many of them are for testing: a number, or a share of them.
        seed: decides which.

    >>> split = split_rows(["a", "b"], [4, 3], test_size=1, seed=0)
    >>> print(split.train_rows.tolist(), split.train_counts, split.test_rows.tolist())
    [[2, 3, 1], [5, 4, 5]] (3, 2) [[0], [6]]
    """
    check_seed("seed", seed)
    starts = np.cumsum([0, *counts])
    train, test = [], []
    for name, start, count in zip(task_names, starts, counts, strict=False):
        rows = start + permutation(count, seed, "own tasks", name)
        number = _count_test_rows(test_size, name, count)
        train.append(rows[number:])
        test.append(rows[:number])
    # A task without a test row is padded with a train row; its count says that there is none.
    padded = [rows if len(rows) else other[:1] for rows, other in zip(test, train, strict=True)]
    return SplitRows(_stack(train, train), _stack(padded, test), _uneven(train), _uneven(test))


def _stack(lines: list[np.ndarray], like: list[np.ndarray]) -> np.ndarray:
    """Lines of one length, that of the longest of `like`; shorter ones begin again."""
    length = max(map(len, like))
    return np.stack([np.resize(line, length) for line in lines])


def _uneven(lines: list[np.ndarray]) -> tuple[int, ...] | None:
    counts = tuple(map(len, lines))
    return counts if len(set(counts)) > 1 else None


def _read_inputs(name: str, x: Any) -> np.ndarray:
    try:
        array = np.asarray(x)
    except ValueError as error:
        raise InputError(f"{name} has rows of different shapes; give one array") from error
    check_numeric(name, array)
    if array.ndim == 0:
        raise InputError(f"{name} must have one row per example, got the single value {array}")
    return array


def _check_alike(part: str, arrays: dict[str, np.ndarray]) -> None:
    """Examples of all tasks must have one shape and be of one kind."""
    (first, mine), *others = arrays.items()
    for name, other in others:
        if other.shape[1:] != mine.shape[1:]:
            raise InputError(
                f"{part} of task {first!r} has shape {mine.shape}, but that of task {name!r} has {other.shape}; "
                "examples of all tasks must have the same shape"
            )
        # Joined, integers would become floats: images would no longer be scaled, labels no longer be classes.
        if np.issubdtype(other.dtype, np.inexact) != np.issubdtype(mine.dtype, np.inexact):
            raise InputError(
                f"{part} of task {first!r} is {_kind(mine)}, but that of task {name!r} is {_kind(other)}; "
                "convert one of them"
            )


def _kind(array: np.ndarray) -> str:
    return "strings" if array.dtype == object else str(array.dtype)


def _count_test_rows(test_size: Any, name: str, count: int) -> int:
    whole, share = (isinstance(test_size, kind) and not isinstance(test_size, bool) for kind in (int, float))
    if not (whole and test_size >= 0) and not (share and 0 <= test_size < 1):
        raise InputError(
            f"test_size must be a number of rows (int of at least 0) or a share of them (float of at least 0 and below "
            f"1), got {test_size!r}"
        )
    test = test_size if whole else round(test_size * count)
    if test >= count:
        raise InputError(
            f"test_size is {test_size}, which leaves none of the {count} rows of task {name!r} to train on; lower it"
        )
    return int(test)
