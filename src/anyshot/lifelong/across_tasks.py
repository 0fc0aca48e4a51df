"""The accuracy of a task, estimated from what past tasks showed at the same number of labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from anyshot.errors import InputError

Measure = Literal["accuracy", "error"]

MIN_TASKS = 20  # closed tasks; with fewer there is no estimate
MIN_LATER = 10  # labels after a look; with fewer its outcome says too little
BANDWIDTH = 0.35  # looks count as near within about a third more or fewer labels
MAX_FOLDS = 20
PENALTY = 1.0  # of the ridge regression on standardised columns; a task counts as one observation


@dataclass(frozen=True)
class Look:
    """What was seen of a task when it had so many labels. For a regression, accuracies are mean squared errors.

    Attributes:
        labels: number of labels that the task had.
        progressive: accuracy on labels predicted before they were learned from; NaN if there were none.
        progressive_count: number of these labels.
        cross_validated: accuracy on the task's own labels by cross-validation; NaN if not done.
        confidence: mean of the largest probability on unlabelled examples; NaN if there are none.
        later: accuracy, of the model as it stood at the look, on labels that came after it; NaN if none did.
        later_count: number of these labels. They must be drawn at random.
    """

    labels: int
    progressive: float = math.nan
    progressive_count: int = 0
    cross_validated: float = math.nan
    confidence: float = math.nan
    later: float = math.nan
    later_count: int = 0


@dataclass(frozen=True)
class Interval:
    """A value and the ends of an interval around it.

    >>> print(Interval(0.83, 0.71, 0.92))
    0.83 [0.71, 0.92]
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def to_scale(measure: Measure, value: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Put accuracies or mean squared errors of `count` labels on a scale where their noise is about the same.

    arcsin(sqrt(accuracy)), after an eighth of a right and of a wrong label was added, so that the mean is kept; or
    ln(mean squared error).
    """
    if measure == "error":
        return np.log(np.maximum(value, 1e-12))
    eighth = 1 / (8 * np.maximum(count, 1))
    return np.arcsin(np.sqrt(np.clip((value + eighth) / (1 + 2 * eighth), 0, 1)))


def from_scale(measure: Measure, value: np.ndarray) -> np.ndarray:
    """The accuracies or mean squared errors that such values stand for."""
    return np.exp(value) if measure == "error" else np.sin(np.clip(value, 0, math.pi / 2)) ** 2


def noise_variance(measure: Measure, value: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Variance on the scale that comes from having only `count` labels, if the true value is `value`.

    For an accuracy, that of a binomial count, carried over to the scale one standard deviation to each side: about
    1/(4 count), and less near 0 and 1. For a mean squared error 2/count, as if errors were Gaussian.
    """
    if measure == "error":
        return 2 / count
    deviation = np.sqrt(value * (1 - value) / count)
    above = to_scale(measure, np.minimum(value + deviation, 1), count)
    below = to_scale(measure, np.maximum(value - deviation, 0), count)
    return ((above - below) / 2) ** 2


@dataclass(frozen=True, eq=False)
class AcrossTasks:
    """Predicts the accuracy of a task from a look at it; made by `fit_across`.

    A ridge regression, on looks with about the same number of labels, predicts the accuracy found on later labels. The
    interval comes from conformal prediction over tasks (cross-conformal, CV+): each past task is predicted without it,
    and the interval for a new task is as wide as nine of ten past ones needed. It assumes that the new task is drawn as
    the past ones were (tasks are exchangeable); then 90 % is the mean over tasks, not a promise for each kind of task.

    The accuracy on later labels is itself a noisy count, so the true accuracy lies nearer to the prediction than the
    count does. Let s² be the variance of the true errors and v that of the count (known, see `noise_variance`). A past
    task's error has variance s² + v, so it is multiplied by sqrt(s²/(s² + v)). s is its posterior mean given the
    errors, as if they were Gaussian, all s up to three times their root mean square being as likely before.

    Attributes:
        measure: what is estimated.
        tasks: for each look of the past, the number of its task.
        log_labels: for each look ln(1 + labels).
        features: for each look what it showed, on the scale of `to_scale`; NaN where missing.
        targets: for each look the later accuracy, on that scale.
        later_counts: for each look the number of labels behind it.
    """

    measure: Measure
    tasks: Int[np.ndarray, " looks"]
    log_labels: Float[np.ndarray, " looks"]
    features: Float[np.ndarray, "looks features"]
    targets: Float[np.ndarray, " looks"]
    later_counts: Float[np.ndarray, " looks"]

    def estimate(self, look: Look, level: float = 0.9) -> Interval:
        """The accuracy of the model as it stands at this look, with an interval that holds it for `level` of new tasks.

        With more labels than past tasks had, it is compared with these when they had most; accuracy grows with labels.
        With too few past tasks near this number of labels (fewer than nine for 90 %) all values are possible: [0, 1].

        Args:
            look: at a task that has gone on so far; its outcome is not used.
            level: share of new tasks whose true accuracy the interval should hold.
        """
        if not 0 < level < 1:
            raise InputError(f"level must be between 0 and 1, got {level}")
        labels = min(look.labels, self._most_labels())
        weights = self._weigh(labels)
        near = weights > 1e-3 * weights.max()
        weights, targets, tasks = weights[near], self.targets[near], self.tasks[near]
        shown = _read_features(self.measure, [look])[0]
        present = np.isfinite(shown)
        columns = np.column_stack([self.log_labels[near], self.features[near][:, present]])
        design, query = _standardise(columns, np.array([math.log1p(labels), *shown[present]]), weights)

        folds = tasks % MAX_FOLDS
        coefficients = _fit_without_each_fold(design, targets, weights, folds)
        predicted = np.sum(design * coefficients[folds], axis=1)
        counts = self.later_counts[near]
        noise = noise_variance(self.measure, from_scale(self.measure, predicted), counts)
        residuals = targets - predicted
        spread = _estimate_spread(residuals, noise, weights)
        errors = np.abs(residuals) * spread / np.sqrt(spread**2 + noise)

        centres = coefficients[folds] @ query
        low, high = -_quantile(errors - centres, weights, level), _quantile(centres + errors, weights, level)
        value = np.clip(coefficients[-1] @ query, low, high)
        return Interval(*from_scale(self.measure, np.array([value, low, high])).tolist())

    def _most_labels(self) -> int:
        """The largest number of labels that twenty past tasks had at a look."""
        most = np.zeros(int(self.tasks.max()) + 1)
        np.maximum.at(most, self.tasks, self.log_labels)
        return round(math.expm1(np.sort(most)[-min(MIN_TASKS, len(most))]))

    def _weigh(self, labels: int) -> Float[np.ndarray, " looks"]:
        """How near each look is in its number of labels. All looks of a task together weigh as much as its nearest."""
        near = np.exp(-0.5 * ((self.log_labels - math.log1p(labels)) / BANDWIDTH) ** 2)
        total = np.bincount(self.tasks, near)
        nearest = np.zeros(len(total))
        np.maximum.at(nearest, self.tasks, near)
        return np.maximum(near * (nearest / np.maximum(total, 1e-300))[self.tasks], 1e-6)


def fit_across(tasks: Sequence[Sequence[Look]], measure: Measure = "accuracy") -> AcrossTasks | None:
    """Learn, from looks at closed tasks, to estimate the accuracy of a new one.

    Looks with fewer than ten later labels are left out. The numbers of labels at which looks are taken should be the
    same for all tasks, such as 0, 1, 2, 3, 5, 8, 12, 18, 27, 40, 60, ...

    Args:
        tasks: the looks at each closed task.
        measure: "accuracy", or "error" for mean squared errors.

    Returns:
        What estimates; None while fewer than 20 closed tasks have looks that can be used.

    >>> rng = np.random.default_rng(0)
    >>> def look_at_task(accuracy: float) -> Look:  # with 10 labels and 40 later ones
    ...     seen, later = rng.binomial([10, 40], accuracy) / [10, 40]
    ...     return Look(10, seen, 10, later=later, later_count=40)
    >>> across = fit_across([[look_at_task(accuracy)] for accuracy in rng.uniform(0.6, 1.0, 100)])
    >>> print(across.estimate(Look(10, progressive=0.9, progressive_count=10)))
    0.87 [0.68, 0.98]
    """
    usable = [[look for look in looks if look.later_count >= MIN_LATER and look.later >= 0] for looks in tasks]
    usable = [looks for looks in usable if looks]
    if len(usable) < MIN_TASKS:
        return None
    looks = [look for looks in usable for look in looks]
    later = np.array([look.later for look in looks])
    counts = np.array([look.later_count for look in looks], float)
    return AcrossTasks(
        measure,
        np.repeat(np.arange(len(usable)), [len(looks) for looks in usable]),
        np.log1p([look.labels for look in looks]),
        _read_features(measure, looks),
        to_scale(measure, later, counts),
        counts,
    )


def _read_features(measure: Measure, looks: Sequence[Look]) -> Float[np.ndarray, "looks features"]:
    values = np.array([(look.progressive, look.cross_validated, look.confidence) for look in looks], float)
    counts = np.array([(look.progressive_count, look.labels, math.inf) for look in looks], float)
    return to_scale(measure, values, counts)


def _standardise(
    columns: Float[np.ndarray, "looks columns"],
    query: Float[np.ndarray, " columns"],
    weights: Float[np.ndarray, " looks"],
) -> tuple[Float[np.ndarray, "looks columns+1"], Float[np.ndarray, " columns+1"]]:
    """Columns of mean 0 and variance 1 behind a column of ones; a missing value becomes the mean."""
    known = np.isfinite(columns)
    share = weights[:, None] * known
    mean = np.sum(share * np.where(known, columns, 0), axis=0) / np.maximum(share.sum(axis=0), 1e-12)
    centred = np.where(known, columns - mean, 0)
    deviation = np.sqrt(weights @ centred**2 / weights.sum()) + 1e-9
    design = np.column_stack([np.ones(len(columns)), centred / deviation])
    return design, np.array([1, *(query - mean) / deviation])


def _fit_without_each_fold(
    design: Float[np.ndarray, "looks columns"],
    targets: Float[np.ndarray, " looks"],
    weights: Float[np.ndarray, " looks"],
    folds: Int[np.ndarray, " looks"],
) -> Float[np.ndarray, "fits columns"]:
    """Coefficients of weighted ridge regressions: line k leaves out fold k, the last line leaves out none."""
    inside: Bool[np.ndarray, "fits looks"] = folds != np.arange(MAX_FOLDS + 1)[:, None]
    weighted = design.T * (inside * weights)[:, None, :]
    penalty = PENALTY * np.diag([1e-9, *np.ones(design.shape[1] - 1)])
    return np.linalg.solve(weighted @ design + penalty, (weighted @ targets)[..., None])[..., 0]


def _estimate_spread(
    residuals: Float[np.ndarray, " looks"], noise: Float[np.ndarray, " looks"], weights: Float[np.ndarray, " looks"]
) -> float:
    """Posterior mean of s, where a residual is Gaussian with variance s² + noise, and s is uniform before."""
    scale = math.sqrt(weights @ residuals**2 / weights.sum()) + 1e-9
    spreads = np.linspace(0, 3, 61)[1:] * scale
    total = spreads[:, None] ** 2 + noise
    log_likelihood = -0.5 * (np.log(total) + residuals**2 / total) @ weights
    likelihood = np.exp(log_likelihood - log_likelihood.max())
    return float(likelihood @ spreads / likelihood.sum())


def _quantile(values: Float[np.ndarray, " looks"], weights: Float[np.ndarray, " looks"], level: float) -> float:
    """The weighted quantile, where a further value of weight 1, for the new task, may be as large as it likes."""
    order = np.argsort(values)
    place = int(np.searchsorted(np.cumsum(weights[order]), level * (weights.sum() + 1) - 1e-9))
    return float(values[order[place]]) if place < len(values) else math.inf
