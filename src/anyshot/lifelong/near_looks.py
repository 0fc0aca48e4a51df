"""Looks at past tasks with about as many labels as a new one has, as a regression takes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

MAX_FOLDS = 20


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


@dataclass(frozen=True, eq=False)
class NearLooks:
    """Looks at past tasks and one at a new task, in the same columns.

    Attributes:
        design: for each look a column of ones and what it showed, standardised; a missing value is the mean.
        query: the same of the new task.
        later: for each look the accuracy, or mean squared error, found on later labels.
        counts: for each look the number of these labels.
        weights: for each look; those of a task add up to 1 at most.
        folds: for each look the fold of its task.
    """

    design: Float[np.ndarray, "looks columns"]
    query: Float[np.ndarray, " columns"]
    later: Float[np.ndarray, " looks"]
    counts: Float[np.ndarray, " looks"]
    weights: Float[np.ndarray, " looks"]
    folds: Int[np.ndarray, " looks"]

    @property
    def without_each_fold(self) -> Bool[np.ndarray, "fits looks"]:
        """Line k is True for looks outside fold k, the last line for all looks."""
        return self.folds != np.arange(MAX_FOLDS + 1)[:, None]


def standardise(
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
