"""Checks of what users give to `Lifelong` and `Task`, before anything is done with it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from anyshot.errors import InputError
from anyshot.inputs import check_finite
from anyshot.lifelong.database import writing
from anyshot.limits import is_number
from anyshot.tasks.labels import ReadLabels, read_labels

LONGEST_TAG = 100


def check_folder(folder: Any) -> Path:
    """A path where a folder is or can be made."""
    path = check_path("folder", folder, "a folder, new or of an earlier Lifelong")
    with writing(path):
        there = next((place for place in (path, *path.parents) if place.exists()), path)
        if there.exists() and not there.is_dir():
            raise InputError(f"folder is {str(folder)!r}, but {there} is a file; give a folder, new or of a Lifelong")
    return path


def check_new_file(path: Any) -> Path:
    """A path where a file can be made or replaced."""
    checked = check_path("path", path, "a file to write")
    if checked.is_dir():
        raise InputError(f"path must be that of a file to write, but {checked} is a folder; give a name in it")
    if not checked.parent.exists():
        raise InputError(f"path is {str(path)!r}, but there is no folder {checked.parent}; make it first")
    return checked


def check_classes(classes: Any) -> list[Any]:
    """The names of classes as values of Python."""
    if isinstance(classes, str) or not isinstance(classes, Iterable):
        raise InputError(f"classes must be two or more strings, whole numbers or booleans, got {show(classes)}")
    names = [name.item() if isinstance(name, np.generic) else name for name in classes]
    if len(names) < 2 or not all(isinstance(name, str | int | bool) for name in names):
        raise InputError(f"classes must be two or more strings, whole numbers or booleans, got {show(classes)}")
    check_one_kind("classes", names)
    if len(set(names)) < len(names):
        raise InputError(f"classes must all be different, got {show(classes)}")
    return names


def check_one_kind(name: str, labels: Iterable[Any]) -> None:
    """Refuse booleans beside whole numbers: True is equal to 1, so one would be taken for the other."""
    whole = [label for label in labels if isinstance(label, int | np.integer | np.bool_)]
    booleans = [label for label in whole if isinstance(label, bool | np.bool_)]
    if 0 < len(booleans) < len(whole):
        number = next(label for label in whole if not isinstance(label, bool | np.bool_))
        raise InputError(
            f"{name} must not be booleans beside whole numbers, got {booleans[0]} and {number}; give one kind of them"
        )


def check_labels(labels: Any) -> ReadLabels:
    """Labels as they are read, one for each input: classes, or finite targets."""
    read = read_labels("labels", labels)
    if read.are_classes and getattr(labels, "dtype", np.dtype(object)) == np.dtype(object):
        check_one_kind("labels", np.asarray(labels, object).ravel())
    if read.are_classes and read.values.ndim > 1:
        raise InputError(f"labels must be one class for each input, got shape {read.values.shape}; targets are floats")
    if not all(read.values.shape[1:]):
        raise InputError(f"labels must have at least one number for each input, got shape {read.values.shape}")
    check_finite("labels", read.values)
    return read


def spread_random(random: Any, count: int) -> Bool[np.ndarray, " n"]:
    """Whether each of `count` inputs was drawn at random."""
    drawn = np.asarray(random)
    if drawn.dtype != bool or drawn.shape not in ((), (count,)):
        raise InputError(f"random must be True, False or one of these for each of {count} inputs, got {show(random)}")
    return np.broadcast_to(drawn, (count,))


def check_count(name: str, value: Any) -> int:
    """A whole number of at least 0."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < 0:
        raise InputError(f"{name} must be a whole number of at least 0, got {value!r}")
    return int(value)


def check_seconds(name: str, value: Any) -> None:
    """Refuse a time that is no number, or negative."""
    if not is_number(value) or not value >= 0:
        raise InputError(f"{name} must be a number of seconds of at least 0, got {value!r}")


def check_interval(level: Any, largest: Any) -> None:
    """Refuse a level that is none, and a largest squared error that is not positive."""
    if not is_number(level) or not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1, such as 0.9, got {level!r}")
    if not is_number(largest) or not 0 < largest < math.inf:
        raise InputError(f"largest must be a positive, finite number, got {largest!r}; it is the largest squared error")


def check_tag(tag: Any, taken: Iterable[str]) -> None:
    """Refuse a tag that is no name for a snapshot, or that another one has."""
    if not isinstance(tag, str) or not 0 < len(tag) <= LONGEST_TAG or not tag.isprintable() or tag.isdigit():
        raise InputError(
            f"tag must be a string of 1 to {LONGEST_TAG} printable characters, not only digits, got {show(tag)}"
        )
    if tag in taken:
        raise InputError(f"tag must be new, but there is a snapshot {tag!r} already; choose another")


def show(value: Any) -> str:
    """A value on one line, for a sentence.

    >>> show(np.array([[1, 2], [3, 4]]))
    'array([[1, 2], [3, 4]])'
    """
    text = " ".join(repr(value).split())
    return text if len(text) <= 150 else f"{text[:150]}..."


def check_path(name: str, path: Any, what: str) -> Path:
    """Refuse what is no path.

    Args:
        name: of the argument.
        path: what was given.
        what: should be there.
    """
    if not isinstance(path, str | os.PathLike) or not str(path) or "\0" in str(path):
        raise InputError(f"{name} must be the path of {what}, got {path!r}")
    return Path(path)
