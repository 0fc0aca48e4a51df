"""The mixture against a sum over all sequences of experts, and its bounds on any losses."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from anyshot.lifelong.mixture import Mixture, learn_prior, smooth
from tests.support.refusals import Case, assert_refused, parametrized

finite = st.floats(-20, 20)
seeds = st.integers(0, 99)
losses_of_experts = st.tuples(st.integers(0, 60), st.integers(1, 4)).flatmap(
    lambda s: arrays(float, s, elements=finite)
)


def follow(losses: np.ndarray, prior: np.ndarray | None = None) -> Mixture:
    mixture = Mixture.start(losses.shape[1]) if prior is None else Mixture.start(prior=prior)
    for line in losses:
        mixture = mixture.update(line)
    return mixture


def sum_over_sequences(losses: np.ndarray, prior: np.ndarray) -> float:
    """-ln of the probability that experts, drawn anew with probability 1/(t + 1) after label t, give to all labels."""
    n, experts = losses.shape
    total = 0.0
    for sequence in itertools.product(range(experts), repeat=n):
        chance = prior[sequence[0]]
        for t in range(1, n):
            stays = sequence[t] == sequence[t - 1]
            chance *= (1 - 1 / (t + 1)) * stays + 1 / (t + 1) * prior[sequence[t]]
        total += chance * math.exp(-sum(losses[t, sequence[t]] for t in range(n)))
    return -math.log(total)


@given(
    st.tuples(st.integers(1, 6), st.integers(1, 3)).flatmap(lambda s: arrays(float, s, elements=st.floats(-3, 8))),
    seeds,
)
def test_loss_is_that_of_the_sum_over_all_sequences_of_experts(losses: np.ndarray, seed: int) -> None:
    prior = draw_prior(losses.shape[1], seed)
    mixture = follow(losses, prior)
    assert mixture.loss == pytest.approx(sum_over_sequences(losses, prior), abs=1e-9)
    np.testing.assert_allclose(mixture.losses, losses.sum(axis=0), atol=1e-9)


def draw_prior(experts: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(experts, 2.0))


@given(losses_of_experts, seeds)
def test_bound_holds_for_any_losses(losses: np.ndarray, seed: int) -> None:
    (n, experts), prior = losses.shape, draw_prior(losses.shape[1], seed)
    mixture = follow(losses, prior)
    assert mixture.loss <= mixture.bound() + 1e-9
    over_each = [math.log(1 / p) + (1 - p) * math.log(max(n, 1)) for p in prior]
    assert mixture.bound() == pytest.approx((losses.sum(axis=0) + np.array(over_each)).min())
    assert mixture.weights.sum() == pytest.approx(1)
    assert mixture.regret == pytest.approx(mixture.loss - losses.sum(axis=0).min())
    equal = follow(losses)
    assert equal.bound() == pytest.approx(
        equal.losses.min() + math.log(experts) + (1 - 1 / experts) * math.log(max(n, 1))
    )


@given(losses_of_experts.filter(lambda losses: len(losses) > 1), seeds)
def test_bound_against_a_change_of_experts_holds_for_any_losses(losses: np.ndarray, seed: int) -> None:
    n, prior = len(losses), draw_prior(losses.shape[1], seed)
    mixture = follow(losses, prior)
    for k in range(1, n):
        first = losses[:k].sum(axis=0) - np.log(prior)
        second = losses[k:].sum(axis=0) - np.log(prior)
        assert mixture.loss <= first.min() + second.min() + math.log(k + 1) + math.log(n) + 1e-9


def test_expert_that_is_bad_first_and_good_later_soon_counts() -> None:
    early, late = np.tile([0.1, 3.0], (20, 1)), np.tile([1.0, 0.1], (10, 1))
    mixture = follow(np.concatenate([early, late]))
    assert mixture.weights[1] > 0.9
    assert mixture.losses[1] > mixture.losses[0] + 40  # plain Bayes would still ignore it
    assert mixture.regret < 0


def test_prior_is_the_weights_of_the_first_prediction_and_part_of_the_bound() -> None:
    prior = np.array([0.9, 0.1])
    mixture = Mixture.start(prior=prior)
    np.testing.assert_allclose(mixture.weights, prior)
    assert mixture.update(np.array([5.0, 0.0])).bound() == pytest.approx(-math.log(0.1))


def test_learned_prior_favours_what_was_better_at_the_start_of_past_tasks() -> None:
    before = np.array([0.3, 0.7])
    np.testing.assert_allclose(learn_prior(np.zeros((0, 2)), before), before)
    prior = learn_prior(np.tile([2.0, 8.0], (50, 1)), before)
    assert prior.sum() == pytest.approx(1)
    assert 0.97 < prior[0] < 1


@given(arrays(float, st.tuples(st.integers(1, 4), st.integers(2, 9)), elements=st.floats(0, 1)))
def test_smoothed_probabilities_have_bounded_losses(raw: np.ndarray) -> None:
    probabilities = (raw + 1e-12) / (raw + 1e-12).sum(axis=-1, keepdims=True)
    smoothed = smooth(probabilities)
    np.testing.assert_allclose(smoothed.sum(axis=-1), 1)
    assert -np.log(smoothed).min() >= 0
    assert -np.log(smoothed).max() <= math.log(100 * raw.shape[-1]) + 1e-9
    assert np.abs(smoothed - probabilities).max() <= 0.01 + 1e-12


REFUSED: list[Case] = [
    ("no expert", lambda: Mixture.start(0), ["experts", "0", "at least 1"]),
    ("neither", lambda: Mixture.start(), ["experts", "prior", "None"]),
    ("zero weight", lambda: Mixture.start(prior=np.array([1.0, 0.0])), ["prior", "positive", "0."]),
    ("sum of 2", lambda: Mixture.start(prior=np.ones(2)), ["prior", "sum to 1"]),
    ("NaN", lambda: Mixture.start(2).update(np.array([1.0, np.nan])), ["losses", "finite", "nan", "smooth"]),
    ("infinite", lambda: Mixture.start(2).update(np.array([1.0, np.inf])), ["losses", "inf"]),
    ("three for two", lambda: Mixture.start(2).update(np.ones(3)), ["losses", "2 finite numbers"]),
]


@parametrized(REFUSED)
def test_refusals(call, words) -> None:
    assert_refused(call, words)
