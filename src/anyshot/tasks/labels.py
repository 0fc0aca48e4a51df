"""Labels as people have them: classes by name become numbers and back, missing labels are found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Bool, Int

from anyshot.errors import InputError

Label = str | bool | int | float
KINDS = {str: "strings", bool: "booleans", int: "whole numbers", float: "floats"}
WHAT_IS_RIGHT = "give strings, whole numbers or booleans as classes, or floats as targets"


@dataclass(frozen=True)
class ClassNames:
    """The names of classes. The number of a class is its place among them.

    Attributes:
        names: strings, whole numbers or booleans; floats only if they were pandas categories.

    >>> names = ClassNames.of(["ok", "bad", "ok"])
    >>> print(names.names, names.encode(["ok", "bad"]), names.decode([1, 0]))
    ('bad', 'ok') [1 0] ['ok' 'bad']
    """

    names: tuple[Label, ...]

    @classmethod
    def of(cls, labels: Any) -> ClassNames:
        """The different labels: numbers first, then strings, in rising order. Booleans are always False and True.

        Args:
            labels: strings, whole numbers, booleans or a pandas category; those that are missing are left out.
        """
        read = read_labels("labels", labels)
        if not read.are_classes or read.values.ndim != 1:
            raise InputError(f"labels must be classes, one for each example, got {read.values.dtype} targets")
        return _name_classes(read.values.tolist())

    def encode(self, labels: Any, name: str = "labels") -> Int[np.ndarray, " n"]:
        """The number of each label.

        Args:
            labels: as they were given to `of`: a list, an array, a pandas Series or Categorical.
            name: of the argument, for the sentence about a label that cannot be encoded.
        """
        read = read_labels(name, labels)
        if not read.labelled.all():
            raise InputError(f"{name} has no label at index {int(np.argmin(read.labelled))}; leave such examples out")
        if read.values.ndim != 1:
            raise InputError(f"{name} must have one label for each example, got shape {read.values.shape}")
        numbers = {label: number for number, label in enumerate(self.names)}
        try:
            return np.array([numbers[label] for label in read.values.tolist()], np.int32)
        except KeyError as error:
            raise InputError(f"{name} holds {error.args[0]!r}, which is no class; the classes are {self}") from None

    def decode(self, numbers: Any) -> np.ndarray:
        """The labels of these numbers, as they were given to `of`.

        Args:
            numbers: whole numbers in an array of any shape, such as `outputs.argmax(-1)`.
        """
        array = np.asarray(numbers)
        if array.size and not np.issubdtype(array.dtype, np.integer):
            raise InputError(f"numbers must be numbers of classes, got {array.dtype}; decode outputs.argmax(-1)")
        wrong = array[(array < 0) | (array >= len(self.names))] if array.size else array
        if wrong.size:
            raise InputError(f"numbers holds {int(wrong.flat[0])}, but the classes are 0..{len(self.names) - 1}")
        kinds = {type(name) for name in self.names}
        names = np.empty(len(self.names), object)
        names[:] = self.names
        if len(kinds) == 1 and kinds < {bool, int, float}:
            names = np.array(self.names)
        return np.asarray(names[array.astype(np.intp)], names.dtype)

    def __str__(self) -> str:
        shown = ", ".join(map(repr, self.names[:10]))
        return shown if len(self.names) <= 10 else f"{shown} and {len(self.names) - 10} more"


def number_classes(tasks: Sequence[np.ndarray]) -> tuple[np.ndarray, ClassNames | None]:
    """The labels of all tasks as numbers of classes, and the names of the classes.

    Whole numbers that are 0..C-1 stay as they are, and so do labels of several numbers each; they have no names (None).

    Args:
        tasks: the classes of each task, as `read_labels` gives them.

    >>> print(*number_classes([np.array([3, 7]), np.array([7])]))
    [0 1 1] 3, 7
    """
    if all(values.dtype == bool for values in tasks):
        return np.concatenate(tasks).astype(np.int32), ClassNames((False, True))
    if all(values.dtype.kind in "biu" for values in tasks):
        joined = np.concatenate([values.astype(np.int32) if values.dtype == bool else values for values in tasks])
        different = np.unique(joined)
        if joined.dtype.kind in "iu" and (joined.ndim > 1 or np.array_equal(different, np.arange(len(different)))):
            return joined, None
    plain = [label for values in tasks for label in values.tolist()]
    names = _name_classes(plain)
    numbers = {label: number for number, label in enumerate(names.names)}
    return np.array([numbers[label] for label in plain], np.int32), names


def _name_classes(labels: Sequence[Label]) -> ClassNames:
    different = set(labels)
    strings = {label for label in different if isinstance(label, str)}
    numbers = [label for label in different if not isinstance(label, str)]
    for number in numbers:
        if str(number) in strings:
            raise InputError(f"labels hold {number!r} and the string {str(number)!r}; convert one of them")
    if numbers and not strings and all(isinstance(number, bool) for number in numbers):
        return ClassNames((False, True))
    # True and 1 are one class, and its name is a number like the others.
    kind = next((kind for kind in (float, int, bool) if any(type(number) is kind for number in labels)), int)
    return ClassNames((*sorted(map(kind, numbers)), *sorted(strings)))


class ReadLabels(NamedTuple):
    """The labels of a task.

    Attributes:
        values: one row for each example that has a label: numbers, or objects if some labels are strings.
        labelled: which of the examples have a label.
        are_classes: whether they are classes; else they are targets of a regression.
    """

    values: np.ndarray
    labelled: Bool[np.ndarray, " n"]
    are_classes: bool


def read_labels(name: str, labels: Any) -> ReadLabels:
    """Read the labels of a task. None, NaN and pandas' NA are missing labels.

    Strings, whole numbers, booleans and pandas categories are classes; strings of digits too. Floats are targets.

    Args:
        name: of the argument, for sentences.
        labels: a list, an array, or a pandas Series, Categorical or DataFrame.

    >>> print(read_labels("y", ["a", None, "b"]).values, read_labels("y", [0.5, float("nan")]).values)
    ['a' 'b'] [0.5]
    """
    array, is_category = _as_array(name, labels)
    if array.ndim == 0:
        raise InputError(f"{name} must have one row per example, got the single value {array}")
    if array.dtype.kind in "biu":
        return ReadLabels(array, np.ones(len(array), bool), are_classes=True)
    if array.dtype == object:
        return _read_objects(name, array, is_category)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise InputError(f"{name} has dtype {array.dtype}; {WHAT_IS_RIGHT}")
    return _read_targets(array)


def _as_array(name: str, labels: Any) -> tuple[np.ndarray, bool]:
    """An array in which nothing has been converted to strings, and whether it was a pandas category."""
    if isinstance(labels, np.ma.MaskedArray):
        array = labels.data.astype(object)
        array[np.ma.getmaskarray(labels)] = None
        return array, False
    if isinstance(getattr(labels, "dtype", None), pd.api.extensions.ExtensionDtype):
        # Not np.asarray, which makes whole numbers with a missing one floats.
        return np.asarray(labels.astype(object), object), isinstance(labels.dtype, pd.CategoricalDtype)
    try:
        array = np.asarray(labels)
        # NumPy makes strings of ["a", 3] and floats of [3, nan]; as objects they stay what they are.
        if array.dtype.kind in "US" or (array.dtype.kind == "f" and not hasattr(labels, "dtype")):
            objects = np.asarray(labels, object)
            return (array if array.dtype.kind == "f" and any(map(_is_float, objects.flat)) else objects), False
        return array, False
    except ValueError as error:
        raise InputError(f"{name} has rows of different shapes; give one array") from error


def _read_objects(name: str, array: np.ndarray, is_category: bool) -> ReadLabels:
    missing = np.asarray(pd.isna(array))
    values = [value.item() if isinstance(value, np.generic) else value for value in array[~missing].tolist()]
    kinds = {next((kind for kind in KINDS if issubclass(given, kind)), given) for given in set(map(type, values))}
    if odd := kinds - KINDS.keys():
        raise InputError(f"{name} holds an object of type {min(kind.__name__ for kind in odd)}; {WHAT_IS_RIGHT}")
    are_targets = float in kinds and not is_category
    if str in kinds and (are_targets or array.ndim > 1):
        found = " and ".join(words for kind, words in KINDS.items() if kind in kinds)
        raise InputError(f"{name} holds {found}, shape {array.shape}; give one kind of label, one for each example")
    if are_targets or array.ndim > 1:
        targets = np.full(array.shape, np.nan)
        targets[~missing] = values
        return _read_targets(targets)
    read = np.array(values, object)
    if kinds <= {bool, int} and all(abs(value) < 2**63 for value in values):
        read = np.array(values, bool if kinds == {bool} else np.int64)
    return ReadLabels(read, ~missing, are_classes=True)


def _is_float(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) and not np.isnan(value)


def _read_targets(array: np.ndarray) -> ReadLabels:
    labelled = ~np.isnan(array).any(axis=tuple(range(1, array.ndim)))
    return ReadLabels(array[labelled], labelled, are_classes=False)
