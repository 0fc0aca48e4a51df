"""The accuracy of a new task as a beta distribution, learned from counts of right labels on past tasks.

Task i had k_i of m_i later labels right. With what was seen of it at the look, z_i,

    k_i ~ Binomial(m_i, a_i),    a_i ~ Beta(p_i s, (1 - p_i) s),    logit p_i = b . z_i

b is a logistic ridge regression. Each task's p_i comes from a fit without it, so s, the size of the beta distribution,
says how far true accuracies are from predictions of new tasks. Few later labels, or none that is wrong, leave s open.
The distribution of a new task's accuracy is a mixture over what b and s may be. Its shortest interval is given.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int
from scipy.special import betainc, betaln, expit, gammaln, logit  # type: ignore[import-untyped]

from anyshot.lifelong.near_looks import Interval, NearLooks

PENALTY = 1.0  # of the ridge regression on standardised columns, in log-odds
INTERCEPT_PENALTY = 0.01
CORRELATION = 0.05  # of a task's later labels, when the regression weighs tasks with many against those with few
MOST_LATER = 100  # labels; more of one task count as this many
NEWTON_STEPS = 30  # at most; about six are needed
FACTORS = 0.5 ** np.arange(8)  # of a step of Newton's method, the best of which is taken
SIZES = np.geomspace(1, 2000, 24)  # of s; before, all deviations of the accuracy, about 1/sqrt(s), are as likely
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(7)  # of a Gaussian, for the new task's b . z
LEVELS = np.concatenate([np.linspace(0.5, 0.99, 50), [0.995, 0.999]])
EDGE = np.geomspace(1e-4, 0.1, 60)
GRID = np.unique(np.concatenate([np.linspace(0, 1, 201), EDGE, 1 - EDGE]))  # of accuracies


def estimate_accuracy(near: NearLooks, level: float, since: tuple[int, int] = (0, 0)) -> Interval:
    """The accuracy of the new task, with the shortest interval of its distribution.

    The level is raised where past tasks, each predicted without it, show that intervals would be too narrow
    (`find_level`), by more than one standard error of the share that they would hold.

    Args:
        near: looks at past tasks; `later` are accuracies.
        level: share of new tasks whose true accuracy the interval should hold.
        since: labels of the new task that came after the look and were right, and that were wrong.
    """
    counts = np.maximum(np.round(np.minimum(near.counts, MOST_LATER)), 1)
    right = np.round(near.later * counts)
    coefficients, hessian = fit_logistic_without_each_fold(near, right / counts, counts)
    predicted = _inside(expit(np.sum(near.design * coefficients[near.folds], axis=1)))
    chances = weigh_sizes(predicted, right, counts, near.weights)
    size = math.exp(chances @ np.log(SIZES))
    by_chance = math.sqrt(level * (1 - level) / near.weights.sum())
    level = max(level, find_level(predicted, size, right, counts, near.weights, level - by_chance))

    spread = math.sqrt(near.query @ np.linalg.solve(hessian, near.query))
    means = _inside(expit(coefficients[-1] @ near.query + spread * NODES))
    likely = chances > 1e-3 * chances.max()
    sizes, means = np.meshgrid(SIZES[likely], means)
    a, b = means * sizes, (1 - means) * sizes
    weights = np.outer(NODE_WEIGHTS, chances[likely]) * np.exp(betaln(a + since[0], b + since[1]) - betaln(a, b))
    weights /= weights.sum()
    a, b = a + since[0], b + since[1]
    below = np.einsum("ms,msg->g", weights, betainc(a[..., None], b[..., None], GRID))
    low, high = find_shortest(below, level)
    return Interval(float(np.clip(np.sum(weights * a / (a + b)), low, high)), low, high)


def fit_logistic_without_each_fold(
    near: NearLooks, shares: Float[np.ndarray, " looks"], counts: Float[np.ndarray, " looks"]
) -> tuple[Float[np.ndarray, "fits columns"], Float[np.ndarray, "columns columns"]]:
    """Coefficients of logistic ridge regressions by Newton's method, and the second derivatives of the last.

    Line k leaves out fold k, the last line leaves out none.

    Args:
        near: the looks.
        shares: of later labels that were right.
        counts: the number of later labels. A task weighs as so many labels with `CORRELATION` between them.
    """
    design, weights = near.design, near.weights * counts / (1 + (counts - 1) * CORRELATION)
    inside = near.without_each_fold * weights
    start = (inside @ shares + 0.5) / (inside.sum(axis=1) + 1)
    coefficients = np.zeros((len(inside), design.shape[1]))
    coefficients[:, 0] = logit(start)
    penalty = np.array([INTERCEPT_PENALTY, *np.full(design.shape[1] - 1, PENALTY)])
    for _ in range(NEWTON_STEPS):
        predicted = expit(coefficients @ design.T)
        slope = (inside * (shares - predicted)) @ design - penalty * coefficients
        curvature = inside * np.maximum(predicted * (1 - predicted), 1e-4)
        hessian = (design.T * curvature[:, None, :]) @ design + np.diag(penalty)
        step = np.linalg.solve(hessian, slope[..., None])[..., 0]
        tried = coefficients + FACTORS[:, None, None] * step
        odds = tried @ design.T
        losses = np.sum(inside * (np.logaddexp(0, odds) - shares * odds), axis=-1) + 0.5 * tried**2 @ penalty
        coefficients = tried[np.argmin(losses, axis=0), np.arange(len(inside))]
        if np.abs(step).max() < 1e-6:
            break
    predicted = expit(design @ coefficients[-1])
    return coefficients, (design.T * inside[-1] * predicted * (1 - predicted)) @ design + np.diag(penalty)


def weigh_sizes(
    predicted: Float[np.ndarray, " looks"],
    right: Float[np.ndarray, " looks"],
    counts: Float[np.ndarray, " looks"],
    weights: Float[np.ndarray, " looks"],
) -> Float[np.ndarray, " sizes"]:
    """How likely each size is after the counts of right labels were seen (beta-binomial)."""
    a, b = SIZES[:, None] * predicted, SIZES[:, None] * (1 - predicted)
    log_chances = (betaln(right + a, counts - right + b) - betaln(a, b)) @ weights - 0.5 * np.log(SIZES)
    chances = np.exp(log_chances - log_chances.max())
    return np.asarray(chances / chances.sum())


def find_level(
    predicted: Float[np.ndarray, " looks"],
    size: float,
    right: Float[np.ndarray, " looks"],
    counts: Float[np.ndarray, " looks"],
    weights: Float[np.ndarray, " looks"],
    level: float,
) -> float:
    """The level whose intervals hold the counts of `level` of the past tasks (conformal prediction over tasks).

    An interval at level L has (1 - L)/2 on each side. A count is a step of the distribution: it is held in part if the
    interval ends within the step, as if it were drawn at random within it.
    """
    at = np.arange(int(counts.max()) + 1)
    number, there = counts[:, None], at <= counts[:, None]
    wrong = np.where(there, number - at, 0)
    a, b = size * predicted[:, None], size * (1 - predicted[:, None])
    log_choices = gammaln(number + 1) - gammaln(at + 1) - gammaln(wrong + 1)
    chances = np.where(there, np.exp(log_choices + betaln(at + a, wrong + b) - betaln(a, b)), 0)
    top = np.sum(chances * (at <= right[:, None]), axis=1)
    step = np.take_along_axis(chances, right[:, None].astype(int), axis=1)[:, 0]
    overlap = np.minimum(top[:, None], (1 + LEVELS) / 2) - np.maximum((top - step)[:, None], (1 - LEVELS) / 2)
    held = weights @ (np.maximum(overlap, 0) / np.maximum(step, 1e-300)[:, None]) / weights.sum()
    place = int(np.searchsorted(held, level))
    return float(LEVELS[min(place, len(LEVELS) - 1)])


def find_shortest(below: Float[np.ndarray, " grid"], level: float) -> tuple[float, float]:
    """The ends of the shortest interval of the grid with at least this chance.

    Args:
        below: the chance that the accuracy is at most each value of the grid.
        level: the chance.
    """
    below = np.append(below[:-1], 1.0)
    ends: Int[np.ndarray, " grid"] = np.searchsorted(below, below + level - 1e-12)
    ends[0] = np.searchsorted(below, level - 1e-12)  # from 0 on, the chance of 0 itself counts, too
    found = ends < len(GRID)
    lengths = np.where(found, GRID[np.minimum(ends, len(GRID) - 1)] - GRID, math.inf)
    first = int(np.argmin(lengths))
    return float(GRID[first]), float(GRID[ends[first]])


def _inside(chances: np.ndarray) -> np.ndarray:
    return np.clip(chances, 1e-3, 1 - 1e-3)
