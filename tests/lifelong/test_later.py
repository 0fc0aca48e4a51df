"""The parts of the estimates from past tasks, against scikit-learn, scipy and closed forms."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import Ridge

from anyshot.lifelong import later_accuracy, later_error
from anyshot.lifelong.near_looks import MAX_FOLDS, NearLooks
from tests.support.logistic import fit_reference


def draw_looks(rng: np.random.Generator, looks: int = 60) -> NearLooks:
    design = np.column_stack([np.ones(looks), rng.normal(size=(looks, 3))])
    counts, folds = rng.integers(1, 40, looks).astype(float), rng.integers(0, MAX_FOLDS, looks)
    design[rng.random(looks) < 0.05, 3] = -6  # rare and far away, as the looks at tasks with a class without a label
    return NearLooks(design, design[0], rng.uniform(size=looks), counts, rng.uniform(0.1, 1, looks), folds)


@given(st.integers(0, 1000))
def test_each_fit_is_a_ridge_regression_without_a_fold(seed: int) -> None:
    rng = np.random.default_rng(seed)
    near = draw_looks(rng)
    found = later_error.fit_without_each_fold(near, near.later)
    for fold in (0, 7, MAX_FOLDS):
        inside = near.folds != fold
        ridge = Ridge(alpha=1.0).fit(near.design[inside, 1:], near.later[inside], near.weights[inside])
        np.testing.assert_allclose(found[fold], [ridge.intercept_, *ridge.coef_], atol=1e-6)


@settings(max_examples=15)
@given(st.integers(0, 1000))
def test_each_fit_is_a_logistic_regression_without_a_fold(seed: int) -> None:
    """Scikit-learn's with a row for the right and one for the wrong labels; the penalty of the first column is 0.01."""
    rng = np.random.default_rng(seed)
    near = draw_looks(rng)
    chances = np.where(near.design[:, 3] < -5, 0.5, rng.choice([0.8, 0.999]))
    shares = rng.binomial(near.counts.astype(int), chances) / near.counts
    found, hessian = later_accuracy.fit_logistic_without_each_fold(near, shares, near.counts)
    scale = np.array([10.0, 1, 1, 1])
    weights = near.weights * near.counts / (1 + (near.counts - 1) * 0.05)
    for fold in (3, MAX_FOLDS):
        inside = near.folds != fold
        x, y = np.tile(near.design[inside] * scale, (2, 1)), np.repeat([1, 0], inside.sum())
        w = np.concatenate([weights[inside] * shares[inside], weights[inside] * (1 - shares[inside])])
        model = fit_reference(x, y, 1.0, weights=w, intercept=False)
        np.testing.assert_allclose(found[fold], model.coef_[0] * scale, atol=1e-4)
    chance = 1 / (1 + np.exp(-near.design @ found[-1]))
    expected = (near.design.T * weights * chance * (1 - chance)) @ near.design + np.diag([0.01, 1, 1, 1])
    np.testing.assert_allclose(hessian, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("right", "wrong"), [(0, 0), (12, 1), (3, 9), (80, 0)])
def test_labels_since_the_look_update_the_distribution_by_bayes_rule(right: int, wrong: int) -> None:
    """Against the density before times the chance of these labels, on a fine grid."""
    rng = np.random.default_rng(0)
    near = draw_looks(rng, 4000)
    counts = np.full(4000, 30.0)
    shares = rng.binomial(30, rng.beta(18, 2, 4000)) / 30
    near = replace(near, design=np.ones((4000, 1)), query=np.ones(1), later=shares, counts=counts)
    found = later_accuracy.estimate_accuracy(near, 0.9, (right, wrong))
    before = stats.beta(18, 2)
    at = np.linspace(0.0005, 0.9995, 1000)
    density = before.pdf(at) * at**right * (1 - at) ** wrong
    below = np.cumsum(density) / density.sum()
    starts = np.linspace(0, 0.1, 201)
    ends = np.interp(starts, below, at), np.interp(starts + 0.9, below, at)
    shortest = int(np.argmin(ends[1] - ends[0]))
    assert found.value == pytest.approx(at @ density / density.sum(), abs=0.02)
    assert (found.low, found.high) == pytest.approx((ends[0][shortest], ends[1][shortest]), abs=0.03)


@given(st.integers(0, 1000))
def test_chances_of_sizes_are_beta_binomial(seed: int) -> None:
    """With a density of 1/sqrt(size) in the logarithm of the size before: all deviations are as likely."""
    rng = np.random.default_rng(seed)
    counts, predicted, weights = rng.integers(1, 30, 12), rng.uniform(0.05, 0.95, 12), rng.uniform(0, 1, 12)
    right = rng.binomial(counts, predicted)
    found = later_accuracy.weigh_sizes(predicted, right.astype(float), counts.astype(float), weights)
    chance = [
        weights @ stats.betabinom.logpmf(right, counts, size * predicted, size * (1 - predicted)) - math.log(size) / 2
        for size in later_accuracy.SIZES
    ]
    expected = np.exp(np.array(chance) - np.max(chance))
    np.testing.assert_allclose(found, expected / expected.sum(), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("counts", [3, 30])
@pytest.mark.parametrize("level", [0.8, 0.9])
def test_level_is_right_where_the_model_is_and_higher_where_accuracies_spread_more(counts: int, level: float) -> None:
    rng, tasks = np.random.default_rng(0), 4000
    predicted = rng.uniform(0.5, 0.99, tasks)
    found = []
    for size in (30.0, 3.0):
        right = rng.binomial(counts, rng.beta(size * predicted, size * (1 - predicted))).astype(float)
        every, ones = np.full(tasks, float(counts)), np.ones(tasks)
        found.append(later_accuracy.find_level(predicted, 30.0, right, every, ones, level))
    assert found[0] == pytest.approx(level, abs=0.02)
    assert found[1] > level + 0.02


@given(st.floats(0.3, 200), st.floats(0.3, 200), st.sampled_from([0.5, 0.9, 0.95]))
def test_shortest_interval_has_the_chance_and_no_shorter_one_does(a: float, b: float, level: float) -> None:
    beta = stats.beta(a, b)
    low, high = later_accuracy.find_shortest(beta.cdf(later_accuracy.GRID), level)
    assert beta.cdf(high) - beta.cdf(low) >= level - 1e-9 or (low, high) == (0, 1)
    starts = np.linspace(0, 1 - level, 400)
    shortest = np.min(beta.ppf(starts + level) - beta.ppf(starts))
    assert high - low <= shortest + 0.011  # the grid's steps are 0.005


@given(st.floats(0.02, 0.3), st.floats(0.0, 0.2), st.integers(0, 1000))
def test_spread_is_found_under_the_noise(true: float, noise: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    residuals = rng.normal(0, math.hypot(true, noise), 4000)
    found = later_error.estimate_spread(residuals, np.full(4000, noise**2), np.ones(4000))
    assert found**2 == pytest.approx(true**2, abs=0.12 * (true**2 + noise**2))


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=60), st.floats(0.05, 0.99))
def test_quantile_of_equal_weights_is_that_of_conformal_prediction(values: list[float], level: float) -> None:
    place = math.ceil(level * (len(values) + 1) - 1e-9)
    expected = sorted(values)[place - 1] if place <= len(values) else math.inf
    assert later_error.find_quantile(np.array(values), np.ones(len(values)), level) == expected
