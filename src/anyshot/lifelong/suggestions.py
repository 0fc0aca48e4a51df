"""Which unlabelled examples to label next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import entr  # type: ignore[import-untyped]

from anyshot.errors import InputError
from anyshot.lifelong.across_tasks import Measure

How = Literal["random", "uncertainty", "disagreement"]

RANDOM_EVERY = 4  # this share of picks is drawn at random, for the estimate


@dataclass(frozen=True, eq=False)
class Choice:
    """Examples to label next.

    Attributes:
        places: where they are in the pool, the most wanted first.
        random: which of them were drawn at random from the pool. Only their labels may count in an estimate.
    """

    places: Int[np.ndarray, " picks"]
    random: Bool[np.ndarray, " picks"]


def score(
    predictions: Float[np.ndarray, "experts examples outputs"],
    weights: Float[np.ndarray, " experts"],
    how: How,
    measure: Measure = "accuracy",
) -> Float[np.ndarray, " examples"]:
    """How much each example is wanted.

    - "random": all the same.
    - "uncertainty": the entropy of the mixture's probabilities.
    - "disagreement": how far the experts' probabilities are from each other, that is, what was learned from other tasks
      against what the task's own labels say: the Jensen-Shannon divergence, the entropy of the mixture less the mean
      entropy of the experts.

    In a regression both are the variance of the experts' predictions.

    Args:
        predictions: of each expert for each example: the probabilities of the classes, or the targets of a regression.
        weights: of the experts; they sum to 1.
        how: one of the three.
        measure: "error" in a regression, else "accuracy".

    >>> predictions = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.5, 0.5], [0.0, 1.0]]])  # of two experts for two examples
    >>> weights = np.array([0.5, 0.5])
    >>> score(predictions, weights, "uncertainty").round(2), score(predictions, weights, "disagreement").round(2)
    (array([0.69, 0.69]), array([0.  , 0.69]))
    """
    if how not in get_args(How):
        raise InputError(f"how must be one of {', '.join(get_args(How))}, got {how!r}")
    if predictions.ndim != 3 or len(predictions) != len(weights):
        raise InputError(
            f"predictions must have the shape (experts, examples, outputs) with {len(weights)} experts as in weights, "
            f"got {predictions.shape}"
        )
    if how == "random":
        return np.zeros(predictions.shape[1])
    mixed = np.tensordot(weights, predictions, axes=1)
    if measure == "error":
        return np.tensordot(weights, (predictions - mixed) ** 2, axes=1).sum(axis=-1)
    uncertainty = entr(mixed).sum(axis=-1)
    if how == "uncertainty":
        return uncertainty
    return uncertainty - np.tensordot(weights, entr(predictions).sum(axis=-1), axes=1)


def rank(
    predictions: Float[np.ndarray, "experts examples outputs"],
    weights: Float[np.ndarray, " experts"],
    how: How,
    rng: np.random.Generator,
    measure: Measure = "accuracy",
) -> Int[np.ndarray, " examples"]:
    """The places of all examples in the order in which they are wanted (see `score`); equal ones in random order.

    >>> predictions = np.array([[[0.9, 0.1], [0.5, 0.5], [0.7, 0.3]]])  # of one expert for three examples
    >>> rank(predictions, np.ones(1), "uncertainty", np.random.default_rng(0))
    array([1, 2, 0])
    """
    scores = score(predictions, weights, how, measure)
    return np.lexsort((rng.permutation(len(scores)), -scores))


def choose(
    n: int,
    predictions: Float[np.ndarray, "experts examples outputs"],
    weights: Float[np.ndarray, " experts"],
    how: How,
    rng: np.random.Generator,
    measure: Measure = "accuracy",
    *,
    since_random: int = 0,
) -> Choice:
    """Choose examples to label, every fourth of them at random.

    Labels that were chosen for being hard say too little about the accuracy on the others. So every fourth pick is
    drawn at random from the whole pool, before the other picks are made, and estimates use those alone. With "random"
    all are. A pool from which many hard examples were taken is no longer like the task: give a new or a large pool.

    Args:
        n: how many; all if the pool has fewer.
        predictions: as for `score`, for the pool.
        weights: of the experts.
        how: as for `score`.
        rng: draws.
        measure: as for `score`.
        since_random: labels since the last random one, so that every fourth pick is random also when made singly.

    >>> predictions = np.random.default_rng(0).dirichlet([1, 1], size=(2, 100))
    >>> choose(5, predictions, np.full(2, 0.5), "disagreement", np.random.default_rng(0)).random
    array([False, False, False,  True, False])
    """
    if n < 0:
        raise InputError(f"n must not be negative, got {n}")
    order = rank(predictions, weights, how, rng, measure)
    n = min(n, len(order))
    random = np.full(n, how == "random") | (
        (min(since_random, RANDOM_EVERY - 1) + np.arange(1, n + 1)) % RANDOM_EVERY == 0
    )
    drawn = rng.permutation(len(order))[: random.sum()]
    places = np.empty(n, np.int64)
    places[random] = drawn
    places[~random] = order[~np.isin(order, drawn)][: n - len(drawn)]
    return Choice(places, random)
