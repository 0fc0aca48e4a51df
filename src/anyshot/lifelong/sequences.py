"""Confidence sequences: what the labels of one task alone say about its accuracy, valid at every look."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq  # type: ignore[import-untyped]
from scipy.special import logit, logsumexp  # type: ignore[import-untyped]

from anyshot.errors import InputError

POINTS = 64
TILTS = logit((np.arange(POINTS) + 0.5) / POINTS)  # λ: quantiles of the logistic distribution, all of equal weight


def confidence_sequence(total: float | int, count: int, level: float = 0.9) -> tuple[float, float]:
    """An interval for the mean of the chances to be right so far, valid at all looks at once.

    Each label is predicted before it is learned from, and x is 1 if that was right, else 0; a loss in [0, 1] will do
    as well. Let p_t be the chance that x_t is 1, given all that came before. It may change from label to label, as it
    does while a model learns. With probability `level` or more, the interval holds m = (p_1 + ... + p_n)/n for every n.
    Nothing is assumed but that x is in [0, 1]. A model that only improves is now at least as good as that mean, so
    the lower end holds for it too; the upper end holds for the mean and not for the model as it is now.

    Proof. Let g(p) = ln(1 - p + p e^λ).
    1. e^(λx) <= 1 - x + x e^λ on [0, 1], so E[e^(λ x_t) | past] <= e^g(p_t), and Π e^(λ x_t - g(p_t)) is a
       nonnegative supermartingale that starts at 1; so is a mixture of them over values of λ fixed in advance.
    2. By Ville's inequality it ever reaches 1/(1 - level) with probability at most 1 - level.
    3. g is concave, so g(p_1) + ... + g(p_n) <= n g(m): the mixture of e^(λ total - n g(m)) is no larger.
    4. So with probability `level` that mixture is below 1/(1 - level) at m for all n, and the interval is the set of
       such m. (It is an interval, as e^(-n g(m)) is convex in m, and total/n is in it, as λ total/n <= g(total/n).)

    The λ are quantiles of the logistic distribution. At m = 1/2 that is (but for the grid) the mixture behind the
    beta-binomial sequence.

    Args:
        total: sum of x so far, such as the number of labels predicted right.
        count: number of labels so far.
        level: probability that the interval is right at all looks.

    >>> low, high = confidence_sequence(20, 20)
    >>> print(f"20 of 20: [{low:.2f}, {high:.2f}]")
    20 of 20: [0.81, 1.00]
    >>> low, high = confidence_sequence(45, 50)
    >>> print(f"45 of 50: [{low:.2f}, {high:.2f}]")
    45 of 50: [0.74, 0.98]
    """
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1, got {level}")
    if count < 0:
        raise InputError(f"count must not be negative, got {count}")
    if not 0 <= total <= count:
        raise InputError(f"total must be from 0 to count = {count}, got {total}")
    if count == 0:
        return 0.0, 1.0
    mean = total / count

    def excess(m: float) -> float:
        return log_evidence(m, total, count) + math.log(1 - level)

    low = float(brentq(excess, 0.0, mean)) if excess(0.0) > 0 else 0.0
    high = float(brentq(excess, mean, 1.0)) if excess(1.0) > 0 else 1.0
    return low, high


def log_evidence(m: float, total: float | int, count: int) -> float:
    """Logarithm of the evidence against a mean of m: of the mixture over λ of exp(λ total - count ln(1 - m + m e^λ)).

    >>> round(log_evidence(0.5, 20, 20), 2)  # 20 of 20 speak against a coin
    10.81
    """
    # 1 - m + m e^λ, divided by e^λ where λ > 0, so that nothing overflows
    scaled = np.where(TILTS > 0, (1 - m) * np.exp(-np.abs(TILTS)) + m, 1 - m + m * np.exp(-np.abs(TILTS)))
    slopes = total - count * (TILTS > 0)
    return float(logsumexp(TILTS * slopes - count * np.log(scaled)) - math.log(POINTS))
