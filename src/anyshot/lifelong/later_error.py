"""The mean squared error of a new task, from those found on past tasks: ridge regression and conformal prediction."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from anyshot.lifelong.near_looks import Interval, NearLooks

PENALTY = 1.0  # of the ridge regression on standardised columns; a task counts as one observation


def estimate_error(near: NearLooks, level: float) -> Interval:
    """The mean squared error of the new task, with an interval by conformal prediction over tasks (CV+).

    A ridge regression predicts ln(mean squared error). Each past task is predicted without it, and the interval is as
    wide as nine of ten past ones needed. The error on later labels is itself noisy, so the true one lies nearer to the
    prediction. Let s² be the variance of the true residuals and v = 2/count that of the noise, as if errors were
    Gaussian. A past task's residual has variance s² + v, so it is multiplied by sqrt(s²/(s² + v)).

    Args:
        near: looks at past tasks; `later` are mean squared errors.
        level: share of new tasks whose true error the interval should hold.
    """
    targets, noise = np.log(np.maximum(near.later, 1e-12)), 2 / near.counts
    coefficients = fit_without_each_fold(near, targets)
    residuals = targets - np.sum(near.design * coefficients[near.folds], axis=1)
    spread = estimate_spread(residuals, noise, near.weights)
    errors = np.abs(residuals) * spread / np.sqrt(spread**2 + noise)
    centres = coefficients[near.folds] @ near.query
    low = -find_quantile(errors - centres, near.weights, level)
    high = find_quantile(centres + errors, near.weights, level)
    value = np.clip(coefficients[-1] @ near.query, low, high)
    return Interval(*np.exp([value, low, high]).tolist())


def fit_without_each_fold(near: NearLooks, targets: Float[np.ndarray, " looks"]) -> Float[np.ndarray, "fits columns"]:
    """Coefficients of weighted ridge regressions: line k leaves out fold k, the last line leaves out none."""
    weighted = near.design.T * (near.without_each_fold * near.weights)[:, None, :]
    penalty = PENALTY * np.diag([1e-9, *np.ones(near.design.shape[1] - 1)])
    return np.linalg.solve(weighted @ near.design + penalty, (weighted @ targets)[..., None])[..., 0]


def estimate_spread(
    residuals: Float[np.ndarray, " looks"], noise: Float[np.ndarray, " looks"], weights: Float[np.ndarray, " looks"]
) -> float:
    """Posterior mean of s, where a residual is Gaussian with variance s² + noise.

    All s up to three times the residuals' root mean square are as likely before.
    """
    scale = math.sqrt(weights @ residuals**2 / weights.sum()) + 1e-9
    spreads = np.linspace(0, 3, 61)[1:] * scale
    total = spreads[:, None] ** 2 + noise
    log_likelihood = -0.5 * (np.log(total) + residuals**2 / total) @ weights
    likelihood = np.exp(log_likelihood - log_likelihood.max())
    return float(likelihood @ spreads / likelihood.sum())


def find_quantile(values: Float[np.ndarray, " looks"], weights: Float[np.ndarray, " looks"], level: float) -> float:
    """The weighted quantile, where a further value of weight 1, for the new task, may be as large as it likes."""
    order = np.argsort(values)
    place = int(np.searchsorted(np.cumsum(weights[order]), level * (weights.sum() + 1) - 1e-9))
    return float(values[order[place]]) if place < len(values) else math.inf
