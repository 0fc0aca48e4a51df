"""The labels of one task, in memory and in the store."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int

from anyshot.errors import InputError
from anyshot.lifelong.arguments import show
from anyshot.lifelong.contents import StoredTask, check_ids
from anyshot.lifelong.engine import Labelled
from anyshot.lifelong.progress import Fact, Progress
from anyshot.lifelong.store import Store

NEW: dict[str, Any] = {"classes": [], "slots": [], "fixed": False, "looks": [], "kept": {}}


@dataclass(frozen=True, eq=False)
class Kept:
    """The labels of a task in order of arrival.

    Attributes:
        ids: their numbers, which are also the rows of their inputs.
        y: numbers of classes, or targets.
        facts: what was predicted before each was seen.
        progress: the experts' weights after all of them.
    """

    ids: Int[np.ndarray, " n"]
    y: np.ndarray
    facts: list[Fact]
    progress: Progress


class Record:
    """What is known about a task. Every change is on disk before it is in memory. Labels are loaded when first used.

    Args:
        store: keeps it.
        task: what the store says about it. Its `info` has the classes, their outputs, whether classes are fixed, looks
            at the task, what was learned up to looks that are to be judged, and the experts' prior weights.
    """

    def __init__(self, store: Store, task: StoredTask) -> None:
        self.name, self.number, self.closed = task.name, task.number, task.closed
        self.info = {**NEW, **task.info}
        self.version = 0  # every change of labels or classes counts
        self.forgotten = False
        self._store, self._count = store, task.labels
        self._kept: Kept | None = None
        self._loading = threading.Lock()
        self._labelled: tuple[int, Labelled] | None = None

    @property
    def kept(self) -> Kept:
        """The labels."""
        with self._loading:
            if self._kept is None:
                examples = self._store.examples(self.number)
                facts = [Fact.from_json(fact) for fact in examples.facts]
                progress = self._start(examples.y).follow(facts, examples.y)
                self._kept = Kept(examples.ids, examples.y, facts, progress)
            return self._kept

    @property
    def ids(self) -> Int[np.ndarray, " n"]:
        """The numbers of the labels."""
        return self.kept.ids

    @property
    def y(self) -> np.ndarray:
        """Numbers of classes, or targets."""
        return self.kept.y

    @property
    def facts(self) -> list[Fact]:
        """What was predicted before each label was seen."""
        return self.kept.facts

    @property
    def progress(self) -> Progress:
        """The experts' weights after all labels."""
        return self.kept.progress

    @property
    def start(self) -> Progress:
        """The experts' weights before the first label."""
        return self._start(self.y)

    @property
    def count(self) -> int:
        """The number of labels."""
        return self._count if self._kept is None else len(self._kept.ids)

    @property
    def classes(self) -> list[Any]:
        """The classes, as the user named them."""
        return list(self.info["classes"])

    @property
    def slots(self) -> dict[str, int]:
        """The output of each class."""
        return {repr(name): slot for name, slot in zip(self.info["classes"], self.info["slots"], strict=True)}

    def labelled(self) -> Labelled:
        """The labels as the learner sees them: classes are numbers of outputs."""
        version, found = self._labelled or (None, None)
        if found is None or version != self.version:
            version, kept = self.version, self.kept
            slots = np.array(self.info["slots"] or [0], np.int32)
            y = slots[kept.y.astype(np.int64)] if kept.y.ndim == 1 else kept.y.astype(np.float32)
            found = Labelled(kept.ids, y)
            self._labelled = version, found
        return found

    def change(self, *, closed: bool | None = None, **info: Any) -> None:
        """Change what is kept about the task."""
        changed = {**self.info, **info}
        self._store.change_task(self.number, info=changed if info else None, closed=closed)
        self.info = changed
        self.closed = self.closed if closed is None else closed
        self.version += 1

    def add(self, x: np.ndarray, y: np.ndarray, facts: Sequence[Fact]) -> Int[np.ndarray, " n"]:
        """Add labels. Returns their numbers."""
        before = self.kept
        ids = self._store.append(self.number, x, y, [fact.to_json() for fact in facts])
        if not len(before.ids):  # only now it is known whether labels are classes or targets
            before = Kept(before.ids, y[:0], [], self._start(y))
        self._kept = Kept(
            np.concatenate([before.ids, ids]),
            np.concatenate([before.y, y]),
            [*before.facts, *facts],
            before.progress.follow(facts, y),
        )
        self.version += 1
        return ids

    def correct(self, places: Int[np.ndarray, " n"], y: np.ndarray) -> None:
        """Replace labels."""
        before = self.kept
        self._store.correct(before.ids[places], y)
        corrected = before.y.copy()
        corrected[places] = y
        self._replace(before.ids, corrected, before.facts)

    def delete(self, places: Int[np.ndarray, " n"]) -> None:
        """Delete labels and their inputs."""
        before = self.kept
        self._store.delete(before.ids[places])
        stay = np.setdiff1d(np.arange(len(before.ids)), places)
        if not len(stay):  # the next labels may be of another kind
            self._kept, self._count = None, 0
            self.version += 1
            return
        self._replace(before.ids[stay], before.y[stay], [before.facts[place] for place in stay])

    def find(self, ids: Any) -> Int[np.ndarray, " n"]:
        """Where the labels with these numbers are."""
        given = np.atleast_1d(np.asarray(ids))
        if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
            raise InputError(f"ids must be whole numbers that observe returned, got {show(ids)}")
        wanted = check_ids(given)
        places = {int(number): place for place, number in enumerate(self.ids)}
        unknown = [number for number in wanted if number not in places]
        if unknown:
            raise InputError(f"ids holds {unknown[0]!r}, but task {self.name!r} has no such label; see task.table")
        return np.array([places[number] for number in wanted], np.int64)

    def _replace(self, ids: np.ndarray, y: np.ndarray, facts: list[Fact]) -> None:
        self._kept = Kept(ids, y, facts, self._start(y).follow(facts, y))
        self.version += 1

    def _start(self, y: np.ndarray) -> Progress:
        return Progress.start(self.info["prior"], classification=y.ndim == 1)
