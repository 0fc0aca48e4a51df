"""The accuracy of a task, estimated from what past tasks showed at the same number of labels."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int
from scipy.special import logit  # type: ignore[import-untyped]

from anyshot.errors import InputError
from anyshot.lifelong.later_accuracy import estimate_accuracy
from anyshot.lifelong.later_error import estimate_error
from anyshot.lifelong.near_looks import MAX_FOLDS, Interval, NearLooks, standardise

Measure = Literal["accuracy", "error"]

MIN_TASKS = 20  # closed tasks; with fewer there is no estimate
MIN_NEAR = 9  # of them that had about as many labels; with fewer all values are possible
MIN_LATER = 10  # labels after a look; with fewer, a mean squared error says too little
MIN_LATER_TOGETHER = 100  # labels after looks at the largest number of labels that tasks are compared at
BANDWIDTH = 0.35  # looks count as near within about a third more or fewer labels
MEMORY = 100  # tasks; one that was closed so many tasks ago counts 1/e, since the learner has gone on to learn
CONFIDENCE_COUNT = 200  # labels that would show the model's confidence


@dataclass(frozen=True)
class Look:
    """What was seen of a task when it had so many labels. For a regression, accuracies are mean squared errors.

    Attributes:
        labels: number of labels that the task had.
        progressive: accuracy on labels predicted before they were learned from; NaN if there were none.
        progressive_count: number of these labels.
        cross_validated: accuracy on the task's own labels by cross-validation; NaN if not done.
        confidence: mean of the largest probability on unlabelled examples; NaN if there are none.
        covered: share of the task's classes that have a label; NaN in a regression.
        later: accuracy, of the model as it stood at the look, on labels that came after it; NaN if none did.
        later_count: number of these labels. They must be drawn at random.
    """

    labels: int
    progressive: float = math.nan
    progressive_count: int = 0
    cross_validated: float = math.nan
    confidence: float = math.nan
    covered: float = math.nan
    later: float = math.nan
    later_count: int = 0

    def count_since(self, earlier: Look) -> tuple[int, int]:
        """Of the labels predicted since an earlier look at the same task: how many were right, and how many wrong.

        >>> Look(20, 0.9, 20).count_since(Look(10, 0.8, 10))
        (10, 0)
        """
        right = self.progressive_right - earlier.progressive_right
        return right, self.progressive_count - earlier.progressive_count - right

    @property
    def progressive_right(self) -> int:
        """How many labels were predicted right before they were learned from."""
        return round(self.progressive * self.progressive_count) if self.progressive_count else 0


@dataclass(frozen=True, eq=False)
class AcrossTasks:
    """Predicts the accuracy of a task from a look at it; made by `fit_across`.

    A regression on looks with about the same number of labels predicts what was found on later labels. The interval is
    as wide as past tasks, each predicted without it, show to be needed (`later_accuracy`, `later_error`). It assumes
    that the new task is drawn as the recent ones were; then 90 % is the mean over tasks, not a promise for each kind of
    task.

    Attributes:
        measure: what is estimated.
        tasks: for each look of the past, the number of its task, in the order in which they were closed.
        labels: for each look the number of labels.
        features: for each look what it showed, as log-odds (or logarithms of errors); NaN where missing.
        later: for each look the accuracy, or mean squared error, found on later labels.
        later_counts: for each look the number of these labels.
    """

    measure: Measure
    tasks: Int[np.ndarray, " looks"]
    labels: Int[np.ndarray, " looks"]
    features: Float[np.ndarray, "looks features"]
    later: Float[np.ndarray, " looks"]
    later_counts: Float[np.ndarray, " looks"]

    def estimate(self, look: Look, level: float = 0.9, earlier: Look | None = None) -> Interval:
        """The accuracy of the model as it stands at this look, with an interval that holds it for `level` of new tasks.

        With more labels than past tasks had, it is compared with these when they had most, and the trend is followed up
        to twice that number. An earlier look, at a number of labels that past tasks had, makes this estimate better:
        the labels of this task since then, each predicted before it was learned from, update what the earlier look
        said. They bear on the lower end only, since the model may have become better on the way. This assumes that
        labels do not make it worse.

        With fewer than nine past tasks near this number of labels all values are possible.

        Args:
            look: at a task that has gone on so far; its outcome is not used.
            level: share of new tasks whose true accuracy the interval should hold.
            earlier: a look at the same task with at most `most_labels`, for a task that has more of them.
        """
        if not 0 < level < 1:
            raise InputError(f"level must be between 0 and 1, got {level}")
        near = self._find_near(look)
        if near.weights.sum() < MIN_NEAR:
            return Interval(0.5, 0.0, 1.0) if self.measure == "accuracy" else Interval(1.0, 0.0, math.inf)
        if self.measure == "error":
            return estimate_error(near, level)
        found = estimate_accuracy(near, level)
        if earlier is None:
            return found
        near_earlier = self._find_near(earlier)
        if near_earlier.weights.sum() < MIN_NEAR:
            return found
        updated = estimate_accuracy(near_earlier, level, look.count_since(earlier))
        return Interval(updated.value, updated.low, max(updated.high, found.high))

    def _find_near(self, look: Look) -> NearLooks:
        most = self.most_labels
        weights = self._weigh(min(look.labels, most))
        kept = weights > 0.02 * weights.max()
        shown = _read_features(self.measure, [look])[0]
        present = np.isfinite(shown)
        columns = np.column_stack([np.log1p(self.labels[kept]), self.features[kept][:, present]])
        query = np.array([math.log1p(min(look.labels, 2 * most)), *shown[present]])
        design, query = standardise(columns, query, weights[kept])
        folds = self.tasks[kept] % MAX_FOLDS
        return NearLooks(design, query, self.later[kept], self.later_counts[kept], weights[kept], folds)

    @functools.cached_property
    def most_labels(self) -> int:
        """The largest number of labels at which enough past tasks have looks."""
        for labels in sorted(set(self.labels.tolist()), reverse=True):
            beyond = self.labels >= labels
            if len(set(self.tasks[beyond])) >= MIN_TASKS and self.later_counts[beyond].sum() >= MIN_LATER_TOGETHER:
                return int(labels)
        return 0

    def _weigh(self, labels: int) -> Float[np.ndarray, " looks"]:
        """How near each look is in its number of labels and in time.

        All looks of a task together weigh as much as its nearest.
        """
        near = np.exp(-0.5 * ((np.log1p(self.labels) - math.log1p(labels)) / BANDWIDTH) ** 2)
        total = np.bincount(self.tasks, near)
        nearest = np.zeros(len(total))
        np.maximum.at(nearest, self.tasks, near)
        recent = np.exp((self.tasks - self.tasks.max()) / MEMORY)
        return recent * near * (nearest / np.maximum(total, 1e-300))[self.tasks]


def fit_across(tasks: Sequence[Sequence[Look]], measure: Measure = "accuracy") -> AcrossTasks | None:
    """Learn, from looks at closed tasks, to estimate the accuracy of a new one.

    Looks without later labels are left out, and those with fewer than ten for mean squared errors. The numbers of
    labels at which looks are taken should be the same for all tasks, such as 0, 1, 2, 3, 5, 8, 12, 18, 27, 40, 60, ...

    Args:
        tasks: the looks at each closed task, the latest last.
        measure: "accuracy", or "error" for mean squared errors.

    Returns:
        What estimates; None while fewer than 20 closed tasks have looks that can be used.

    >>> rng = np.random.default_rng(0)
    >>> def look_at_task(accuracy: float) -> Look:  # with 10 labels and 40 later ones
    ...     seen, later = rng.binomial([10, 40], accuracy) / [10, 40]
    ...     return Look(10, seen, 10, later=later, later_count=40)
    >>> across = fit_across([[look_at_task(accuracy)] for accuracy in rng.uniform(0.6, 1.0, 100)])
    >>> print(across.estimate(Look(10, progressive=0.9, progressive_count=10)))
    0.85 [0.71, 1.00]
    """
    least = 1 if measure == "accuracy" else MIN_LATER
    usable = [[look for look in looks if look.later_count >= least and look.later >= 0] for looks in tasks]
    usable = [looks for looks in usable if looks]
    if len(usable) < MIN_TASKS:
        return None
    looks = [look for looks in usable for look in looks]
    return AcrossTasks(
        measure,
        np.repeat(np.arange(len(usable)), [len(looks) for looks in usable]),
        np.array([look.labels for look in looks]),
        _read_features(measure, looks),
        np.array([look.later for look in looks]),
        np.array([look.later_count for look in looks], float),
    )


def _read_features(measure: Measure, looks: Sequence[Look]) -> Float[np.ndarray, "looks features"]:
    """What looks showed, as log-odds after half a right and half a wrong label were added, or as ln(error)."""
    values = np.array([(look.progressive, look.cross_validated, look.confidence) for look in looks], float)
    if measure == "error":
        return np.log(np.maximum(values, 1e-12))
    counts = np.array([(look.progressive_count, look.labels, CONFIDENCE_COUNT) for look in looks], float)
    covered = [look.covered for look in looks]
    return np.column_stack([logit((values * counts + 0.5) / (counts + 1)), covered])
