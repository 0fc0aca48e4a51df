"""What a store holds, and the checks of what goes in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int64

from anyshot.errors import InputError
from anyshot.inputs import check_finite

INPUTS = ("float32", "uint8")


class StoredTask(NamedTuple):
    """A task: its number, its name, what its owner keeps about it, whether it is closed, how many examples it has."""

    number: int
    name: str
    info: dict[str, Any]
    closed: bool
    labels: int


@dataclass(frozen=True)
class Examples:
    """The examples of a task in the order in which they arrived.

    Attributes:
        ids: their numbers.
        y: their labels, corrections applied, int64 or float64, of shape (n,) or (n, k).
        facts: what was kept about each, such as what was predicted before its label was seen.
    """

    ids: Int64[np.ndarray, " n"]
    y: np.ndarray
    facts: list[dict[str, Any]]

    @property
    def rows(self) -> Int64[np.ndarray, " n"]:
        """Where their inputs are, for `Store.read`: the number of an example is also the row of its input."""
        return self.ids


@dataclass(frozen=True)
class Event:
    """Something that changed the tasks or their examples.

    Attributes:
        number: 1, 2, 3, ... in the order in which they happened.
        time: seconds since 1970, UTC.
        kind: "task" (begun), "append", "correct", "delete" or "forget".
        task: the number of the task.
        example: the number of the example, if it is about one.
        old: the label before a correction; None once the example is deleted.
        new: the label after it, likewise.
    """

    number: int
    time: float
    kind: str
    task: int
    example: int | None
    old: Any
    new: Any


@dataclass(frozen=True)
class Counts:
    """How many tasks and examples there are, how many examples there have ever been, and how many events."""

    tasks: int
    examples: int
    appended: int
    events: int


@dataclass(frozen=True)
class Labels:
    """Labels as text.

    Attributes:
        dtype: int64 or float64; every integer or real label fits in one of them unchanged.
        size: numbers in a label, or None if a label is a number by itself.
        texts: each label as JSON.
    """

    dtype: str
    size: int | None
    texts: list[str]


def encode_labels(y: np.ndarray) -> Labels:
    """Labels as text; refuses what is not integer or real, one or more numbers a label.

    Example:
        >>> encode_labels(np.array([[0.5, 1.0]], np.float32))
        Labels(dtype='float64', size=2, texts=['[0.5, 1.0]'])
    """
    if not isinstance(y, np.ndarray) or y.dtype.kind not in "iuf":
        kind = f"dtype {y.dtype}" if isinstance(y, np.ndarray) else f"an object of type {type(y).__name__}"
        raise InputError(f"y must be an array of integers or real numbers, got {kind}")
    if y.ndim not in (1, 2) or (y.ndim == 2 and not y.shape[1]):
        raise InputError(f"y must have one label a row, of shape (n,) or (n, k), got shape {y.shape}")
    check_finite("y", y)
    dtype = "float64" if y.dtype.kind == "f" else "int64"
    if not np.array_equal(converted := y.astype(dtype), y):
        raise InputError(f"y holds {y.max()}, which does not fit in {dtype}; use smaller numbers")
    size = y.shape[1] if y.ndim == 2 else None
    return Labels(dtype, size, [json.dumps(label) for label in converted.tolist()])


def decode_labels(texts: Sequence[str], dtype: str, size: int | None) -> np.ndarray:
    """The labels that `encode_labels` turned into text."""
    shape = (len(texts),) if size is None else (len(texts), size)
    return np.array(decode_all(texts), dtype).reshape(shape)


def encode_json(name: str, value: Any) -> str:
    """A dict as JSON; refuses what JSON has no word for."""
    if not isinstance(value, dict):
        raise InputError(f"{name} must be a dict, got an object of type {type(value).__name__}")
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{name} must be what JSON can hold (no arrays, no NaN): {error}") from error
    if json.loads(text) != value:  # tuples, and keys that are numbers
        raise InputError(f"{name} must come back from JSON as it was: lists for tuples, strings as keys; got {value}")
    return text


def encode_facts(facts: Sequence[dict[str, Any]]) -> list[str]:
    """The facts of each example as JSON."""
    return [encode_json(f"facts[{i}]", fact) for i, fact in enumerate(facts)]


def decode_all(texts: Sequence[str]) -> list[Any]:
    """The values of several texts of JSON."""
    values: list[Any] = json.loads(f"[{','.join(texts)}]")
    return values


def check_inputs(x: np.ndarray) -> None:
    """Refuse inputs that are not finite float32 or uint8, one row an example."""
    if not isinstance(x, np.ndarray) or x.dtype.name not in INPUTS:
        kind = f"dtype {x.dtype}" if isinstance(x, np.ndarray) else f"an object of type {type(x).__name__}"
        raise InputError(f"x must be an array of {' or '.join(INPUTS)}, got {kind}; convert it")
    if not x.ndim or not all(x.shape[1:]):
        raise InputError(f"x must have one row an example and at least one number in it, got shape {x.shape}")
    check_finite("x", x)


def check_name(name: str) -> None:
    """Refuse a task's name that no database can keep."""
    if not isinstance(name, str) or not name or "\0" in name or not name.isprintable():
        raise InputError(f"name must be a string of at least one character, all of them printable, got {name!r}")


def check_ids(ids: Any) -> list[int]:
    """Numbers of examples as a list; refuses what is none, and an example twice."""
    array = np.asarray(ids)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InputError(f"ids must be whole numbers of examples in one dimension, got {ids!r}")
    numbers: list[int] = array.tolist()
    if len(set(numbers)) < len(numbers):
        twice = next(number for number in numbers if numbers.count(number) > 1)
        raise InputError(f"ids must name each example once, but {twice} is there more than once")
    return numbers


def check_same_length(first: str, one: int, second: str, two: int) -> None:
    """Refuse two sequences of which one has more than the other."""
    if one != two:
        raise InputError(f"{first} has {one} rows but {second} has {two}; give one of each an example")
