"""Numbers over seeds: means and deviations, paired differences with intervals and p values, Holm's correction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from anyshot.errors import InputError

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation of one value for each seed.

    Attributes:
        mean: of the values.
        deviation: standard deviation with n - 1 in the denominator; None for one value.
        n: number of values.
    """

    mean: float
    deviation: float | None
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Summarise the values.

        >>> Spread.of([1.0, 3.0])
        Spread(mean=2.0, deviation=1.4142135623730951, n=2)
        """
        array = _as_array(values)
        return cls(float(array.mean()), float(array.std(ddof=1)) if len(array) > 1 else None, len(array))


@dataclass(frozen=True)
class Difference:
    """Mean of paired differences with its 95 % confidence interval (Student's t).

    Attributes:
        mean: of the differences.
        low: lower end of the interval; None for one pair.
        high: upper end of the interval; None for one pair.
        p: of the two-sided paired t test; None for one pair.
        n: number of pairs.
    """

    mean: float
    low: float | None
    high: float | None
    p: float | None
    n: int

    @classmethod
    def of(cls, differences: Sequence[float]) -> Difference:
        """Summarise the differences, one for each pair.

        >>> found = Difference.of([1.0, 2.0, 3.0])
        >>> print(f"{found.mean} [{found.low:.3f}, {found.high:.3f}], p = {found.p:.3f}, n = {found.n}")
        2.0 [-0.484, 4.484], p = 0.074, n = 3
        """
        array = _as_array(differences)
        mean, n = float(array.mean()), len(array)
        if n < 2:
            return cls(mean, None, None, None, n)
        error = float(stats.sem(array))
        if error == 0:  # all differences are equal, so the interval has no width
            return cls(mean, mean, mean, 0.0 if mean else 1.0, n)
        low, high = stats.t.interval(CONFIDENCE, n - 1, loc=mean, scale=error)
        p = 2 * stats.t.sf(abs(mean) / error, n - 1)
        return cls(mean, float(low), float(high), float(p), n)

    @property
    def excludes_zero(self) -> bool:
        """Whether all of the interval is on one side of zero; False without an interval."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p values of several tests by Holm's method, in the order given.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted


def _as_array(values: Sequence[float]) -> np.ndarray:
    array = np.asarray(values, float)
    if array.ndim != 1 or not len(array):
        raise InputError(f"values must be a sequence of at least one number, got {values!r}")
    return array
