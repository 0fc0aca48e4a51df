"""New labels of a task: whether they may be added, and as which numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from anyshot.errors import InputError
from anyshot.lifelong.arguments import check_one_kind
from anyshot.lifelong.home import Home
from anyshot.lifelong.record import Record
from anyshot.tasks.labels import ClassNames, ReadLabels


def check_one_each(labels: int, things: int, noun: str) -> None:
    """Refuse labels of which there are more or fewer than of what they are for."""
    if labels != things:
        shown = f"{things} {noun}" if things == 1 else f"{things} {noun}s"
        raise InputError(f"labels must be one for each {noun}, got {labels} for {shown}")


def check_fit(home: Home, record: Record, read: ReadLabels) -> None:
    """Refuse labels of another kind than those that there are, and new classes where all are known."""
    home.check_labels(read)
    if not read.are_classes:
        return
    check_one_kind("labels", [*record.classes, *read.values.tolist()])
    if record.info["fixed"] and (new := _find_new(record, read)):
        known = ", ".join(map(repr, record.classes))
        raise InputError(f"labels holds {new[0]!r}, but the classes of task {record.name!r} are {known}")


def number_labels(home: Home, record: Record, read: ReadLabels) -> np.ndarray:
    """Numbers of classes, with new classes added to the task, or targets, one line each."""
    if not read.are_classes:
        return read.values.reshape(len(read.values), -1).astype(np.float64)
    if new := _find_new(record, read):
        home.add_classes(record, new)
    return ClassNames(tuple(record.classes)).encode(read.values).astype(np.int64)


def _find_new(record: Record, read: ReadLabels) -> list[Any]:
    known = set(record.classes)
    return [name for name in dict.fromkeys(read.values.tolist()) if name not in known]
