"""Looks at a task: what was seen at some number of labels, and how good the model of that moment turned out to be."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np

from anyshot.lifelong.across_tasks import Look
from anyshot.lifelong.experts import Experts
from anyshot.lifelong.learning import Learned, Learning
from anyshot.lifelong.moments import Moments
from anyshot.lifelong.progress import Progress
from anyshot.lifelong.record import Record
from anyshot.lifelong.store import Store

COUNTS = (0, 1, 2, 3, 5, 8, 12, 18, 27, 40, 60, 90, 135, 200, 300, 450, 675, 1000)  # labels at which looks are taken
FOLDS = 5


class Looks:
    """Looks at one task. What was learned up to each look is kept on disk until the task is closed.

    So a later label never takes part in a prediction that it judges, also if the process ends in between.

    Args:
        record: the task.
        experts: predict.
        store: holds the inputs.
        moments: holds what was learned up to each look.
    """

    def __init__(self, record: Record, experts: Experts, store: Store, moments: Moments) -> None:
        self._record, self._experts, self._store, self._moments = record, experts, store, moments
        self._validated: tuple[int, Learned, float] | None = None  # by all labels, at this version of them

    @property
    def _kept(self) -> dict[int, str]:
        """The number of labels at each look that is to be judged, and the name of what was learned up to it."""
        return {int(count): name for count, name in self._record.info["kept"].items()}

    def keep(self, learning: Learning) -> None:
        """Take a look at the number of labels that there are now, if one is due."""
        count, kept = self._record.count, self._kept
        if not kept or max(kept) < max(due for due in COUNTS if due <= count):
            self._keep({**kept, count: self._moments.keep(learning)})

    def drop(self) -> None:
        """Drop all looks, for example because labels that judge them were deleted."""
        if self._kept:
            self._keep({})

    def _keep(self, kept: dict[int, str]) -> None:
        self._record.change(kept={str(count): name for count, name in kept.items()})

    def look(self, learning: Learning, pool: np.ndarray | None = None) -> Look:
        """What the task shows now.

        Args:
            learning: the learner of all tasks.
            pool: unlabelled inputs.
        """
        version, learned, count = self._record.version, learning.now, self._record.count
        if self._validated is None or self._validated[0] != version or self._validated[1] is not learned:
            self._validated = version, learned, self._cross_validate(learning, learned, count)
        return self._look(learning, learned, count, self._validated[2], pool)

    def look_back(self, learning: Learning, most: int, pool: np.ndarray | None = None) -> Look | None:
        """What the task showed at the last look with at most so many labels; None if it is not over or not kept."""
        kept = {count: name for count, name in self._kept.items() if count <= most}
        if self._record.count <= most or not kept:
            return None
        count = max(kept)
        learned = self._moments.load(learning, kept[count])
        if learned is None:
            return None
        return self._look(learning, learned, count, self._cross_validate(learning, learned, count), pool)

    def judge(self, learning: Learning) -> list[Look]:
        """All looks, each judged by the random labels that came after it."""
        record, found = self._record, []
        moments = {name: self._moments.load(learning, name) for name in set(self._kept.values())}
        for count, name in self._kept.items():
            learned = moments[name]
            later = np.array([p for p in range(count, record.count) if record.facts[p].random], np.int64)
            if learned is None or not len(later):
                continue
            x = self._store.read(record.ids[later])
            look = self._look(learning, learned, count, self._cross_validate(learning, learned, count), x)
            predicted = self._combine(learning, learned, np.arange(count), x, self._progress(count))
            judged = {**asdict(look), "later": self._measure(predicted, record.y[later]), "later_count": len(later)}
            found.append(Look(**judged))
        return found

    def _look(
        self, learning: Learning, learned: Learned, count: int, cross_validated: float, pool: np.ndarray | None
    ) -> Look:
        record, progress = self._record, self._record.start
        values = []
        for fact, label in zip(record.facts[:count], record.y[:count], strict=True):
            if fact.random:
                values.append(self._measure(progress.combine(fact.predicted)[None], label[None]))
            progress = progress.update(fact, label)[0]
        confidence, covered = math.nan, math.nan
        if learning.classification:
            covered = len(np.unique(record.y[:count])) / max(len(record.classes), 1)
        if pool is not None and len(pool) and learning.classification:
            predicted = self._combine(learning, learned, np.arange(count), pool, progress)
            confidence = float(predicted.max(axis=1).mean())
        return Look(
            labels=count,
            progressive=float(np.mean(values)) if values else math.nan,
            progressive_count=len(values),
            cross_validated=cross_validated,
            confidence=confidence,
            covered=covered,
        )

    def _cross_validate(self, learning: Learning, learned: Learned, count: int) -> float:
        """The accuracy, or mean squared error, on each part of the first labels after adapting to the others."""
        folds = min(FOLDS, count)
        if folds < 2:
            return math.nan
        x, y, places = self._store.read(self._record.ids[:count]), self._record.y[:count], np.arange(count)
        total, progress = 0.0, self._progress(count)
        for fold in range(folds):
            mine = places % folds == fold
            predicted = self._combine(learning, learned, places[~mine], x[mine], progress)
            total += mine.sum() * self._measure(predicted, y[mine])
        return float(total / count)

    def _combine(
        self, learning: Learning, learned: Learned, places: np.ndarray, x: np.ndarray, progress: Progress
    ) -> np.ndarray:
        return progress.combine(self._experts.predict(learning, x, learned, places))

    def _progress(self, count: int) -> Progress:
        return self._record.start.follow(self._record.facts[:count], self._record.y[:count])

    def _measure(self, predicted: np.ndarray, y: np.ndarray) -> float:
        if y.ndim == 1:
            return float(np.mean(predicted.argmax(axis=1) == y))
        return float(np.mean((predicted - y) ** 2))


def to_json(look: Look) -> dict[str, Any]:
    """A look as the store keeps it; what is not known is None.

    >>> to_json(Look(3, 0.5, 2))["later"] is None
    True
    """
    return {name: None if value != value else value for name, value in asdict(look).items()}


def from_json(look: dict[str, Any]) -> Look:
    """A look as it was stored."""
    known: dict[str, Any] = {name: math.nan if value is None else value for name, value in look.items()}
    return Look(**known)
