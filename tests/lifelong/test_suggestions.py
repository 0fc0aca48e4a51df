"""Scores against plain formulas, and which picks are random."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshot.lifelong.suggestions import choose, rank, score
from tests.support.refusals import Case, assert_refused, parametrized

seeds = st.integers(0, 10_000)
ways = st.sampled_from(["random", "uncertainty", "disagreement"])


def draw(seed: int, examples: int = 30) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(3, 0.5), size=(2, examples)), rng.dirichlet([1, 1]), rng


def entropy(probabilities: np.ndarray) -> float:
    return -sum(p * math.log(p) for p in probabilities if p > 0)


def relative_entropy(p: np.ndarray, q: np.ndarray) -> float:
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0)


@given(seeds)
def test_scores_are_entropy_and_mean_distance_to_the_mixture(seed: int) -> None:
    predictions, weights, _ = draw(seed)
    for place in range(predictions.shape[1]):
        mixed = weights[0] * predictions[0, place] + weights[1] * predictions[1, place]
        distance = sum(w * relative_entropy(p, mixed) for w, p in zip(weights, predictions[:, place], strict=True))
        assert score(predictions, weights, "uncertainty")[place] == pytest.approx(entropy(mixed))
        assert score(predictions, weights, "disagreement")[place] == pytest.approx(distance, abs=1e-9)


def test_score_of_targets_is_their_variance_between_experts() -> None:
    predictions = np.array([[[1.0, 0.0], [2.0, 2.0]], [[3.0, 4.0], [2.0, 2.0]]])
    for how in ("uncertainty", "disagreement"):
        assert score(predictions, np.array([0.5, 0.5]), how, "error").tolist() == [5.0, 0.0]


@given(seeds, ways)
def test_rank_orders_all_places_by_score(seed: int, how: str) -> None:
    predictions, weights, rng = draw(seed)
    order = rank(predictions, weights, how, rng)
    assert sorted(order) == list(range(30))
    scores = score(predictions, weights, how)[order]
    assert np.all(np.diff(scores) <= 0)


def test_equal_examples_come_in_random_order() -> None:
    predictions, weights, rng = draw(0)
    orders = {tuple(rank(predictions, weights, "random", rng)) for _ in range(20)}
    assert len(orders) == 20
    again = [rank(predictions, weights, "random", np.random.default_rng(5)).tolist() for _ in range(2)]
    assert again[0] == again[1]


@given(seeds, ways, st.integers(0, 40), st.integers(0, 9))
def test_every_fourth_pick_is_random_and_the_others_are_the_most_wanted(
    seed: int, how: str, n: int, before: int
) -> None:
    predictions, weights, rng = draw(seed)
    choice = choose(n, predictions, weights, how, rng, since_random=before)
    assert len(set(choice.places)) == len(choice.places) == min(n, 30)
    expected = [how == "random" or (min(before, 3) + pick) % 4 == 0 for pick in range(1, min(n, 30) + 1)]
    assert choice.random.tolist() == expected
    scores = score(predictions, weights, how)
    left = np.setdiff1d(np.arange(30), choice.places)
    if len(left) and (~choice.random).any():
        assert scores[choice.places[~choice.random]].min() >= scores[left].max()


def test_picks_made_singly_are_as_often_random() -> None:
    predictions, weights, rng = draw(2)
    random: list[bool] = []
    for _ in range(12):
        since = len(random) - 1 - max((place for place, drawn in enumerate(random) if drawn), default=-1)
        random += choose(1, predictions, weights, "uncertainty", rng, since_random=since).random.tolist()
    assert random == [False, False, False, True] * 3


def test_random_picks_are_drawn_from_the_whole_pool_alike() -> None:
    """Also those examples are drawn that the ranking puts first: else the random labels would be too easy."""
    predictions, weights, rng = draw(1, examples=8)
    drawn = np.zeros(8)
    for _ in range(2000):
        choice = choose(4, predictions, weights, "uncertainty", rng)
        drawn[choice.places[choice.random]] += 1
    assert drawn.sum() == 2000
    assert np.all(np.abs(drawn - 250) < 5 * math.sqrt(250))


POOL = np.full((2, 3, 2), 0.5)
REFUSED: list[Case] = [
    ("how", lambda: score(POOL, np.ones(2) / 2, "entropy"), ["how", "entropy", "uncertainty"]),
    ("shape", lambda: score(POOL[0], np.ones(2) / 2, "random"), ["predictions", "(3, 2)", "experts"]),
    ("weights", lambda: score(POOL, np.ones(3) / 3, "random"), ["3 experts", "weights"]),
    ("n", lambda: choose(-1, POOL, np.ones(2) / 2, "random", np.random.default_rng(0)), ["n must", "-1"]),
]


@parametrized(REFUSED)
def test_refusals(call, words) -> None:
    assert_refused(call, words)
