"""Numbers over seeds: mean and standard deviation, and paired differences with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit  # type: ignore[import-untyped]


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over seeds (the latter None with one seed)."""

    mean: float
    deviation: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of one value for each seed; n - 1 in the denominator.

        >>> Spread.of([1.0, 3.0])
        Spread(mean=2.0, deviation=1.4142135623730951)
        """
        return cls(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None)


@dataclass(frozen=True)
class Difference:
    """A method less the reference, seed by seed: the mean and its 95 % confidence interval.

    Attributes:
        mean: of the differences.
        low: end of the interval; None with one pair, which says nothing about the spread.
        high: the other end.
    """

    mean: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Difference:
        """Student's t over the differences.

        >>> Difference.of([1.0, 2.0, 3.0])
        Difference(mean=2.0, low=-0.484..., high=4.484...)
        """
        mean, count = float(np.mean(values)), len(values)
        if count < 2:
            return cls(mean, None, None)
        half = float(stdtrit(count - 1, 0.975) * np.std(values, ddof=1) / np.sqrt(count))
        return cls(mean, mean - half, mean + half)

    @property
    def excludes_zero(self) -> bool:
        """Whether all of the interval is on one side of zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)
