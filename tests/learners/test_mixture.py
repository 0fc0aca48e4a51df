"""Exponential weights in JAX against the same rule in NumPy, which is tested against a sum over all sequences."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from anyshot.learners.mixture import FIRST_LABELS, FIRST_SHARE, TASKS, Errors, Weights, class_losses, learn_prior
from anyshot.lifelong.mixture import Mixture, smooth
from anyshot.lifelong.progress import Fact, Progress

EXPERTS = 3
PRIOR = np.array([0.2, 0.5, 0.3])
LABELS = 12  # a fixed size, so that one program serves all examples
losses_of_experts = arrays(float, (LABELS, EXPERTS), elements=st.floats(0, 20))


def follow(losses: np.ndarray) -> Mixture:
    mixture = Mixture.start(prior=PRIOR)
    for line in losses:
        mixture = mixture.update(line)
    return mixture


@given(losses_of_experts, st.integers(0, LABELS), st.integers(0, LABELS))
def test_weights_are_those_of_the_rule_in_numpy_however_labels_arrive(losses: np.ndarray, first: int, n: int) -> None:
    weights, rows = Weights.start(jnp.log(PRIOR)), np.arange(LABELS)
    for present in (rows < min(first, n), (rows >= min(first, n)) & (rows < n)):
        spoilt = np.where(present[:, None], losses, np.nan)  # what padding holds must not matter
        weights = weights.update(jnp.asarray(spoilt), jnp.asarray(present), jnp.log(PRIOR))
    assert int(weights.count) == n
    np.testing.assert_allclose(np.exp(weights.log), follow(losses[:n]).weights, atol=1e-12)
    np.testing.assert_allclose(weights.early, losses[: min(n, FIRST_LABELS)].sum(axis=0), atol=1e-12)


def test_losses_of_classes_are_those_of_smoothed_probabilities() -> None:
    draw = np.random.default_rng(0)
    p, y = draw.dirichlet(np.ones(4), size=(5, EXPERTS)), draw.integers(0, 4, 5)
    p[0, 0] = [1, 0, 0, 0]
    with np.errstate(divide="ignore"):
        found = class_losses(jnp.log(p), jnp.asarray(y))
    np.testing.assert_allclose(found, [[-np.log(smooth(p[i, e])[y[i]]) for e in range(EXPERTS)] for i in range(5)])


def test_losses_of_targets_are_those_of_a_gaussian_with_the_errors_so_far() -> None:
    draw = np.random.default_rng(1)
    predicted, y = draw.normal(size=(LABELS, EXPERTS, 1)), draw.normal(size=(LABELS, 1))
    present = np.arange(LABELS) < 9
    found, errors = Errors.start(EXPERTS).update(
        jnp.asarray(np.where(present[:, None, None], predicted - y[:, None], np.nan)), jnp.asarray(present)
    )
    progress, expected = Progress.start(PRIOR.tolist(), classification=False), []
    for row, target in zip(predicted[:9], y[:9], strict=True):
        progress, losses = progress.update(Fact(row), target)
        expected.append(losses)
    np.testing.assert_allclose(np.asarray(found)[:9], expected, rtol=1e-12)
    assert progress.errors is not None
    np.testing.assert_allclose(errors.total / errors.count, progress.errors.mean(axis=1))


def test_first_weights_follow_the_experts_that_predict_first_labels_well_and_never_vanish() -> None:
    log_prior, first = jnp.log(PRIOR), jnp.asarray(PRIOR)
    losses = jnp.tile(jnp.array([0.1, 3.0, 3.0]), (LABELS, 1))
    ended = Weights.start(log_prior).update(losses, jnp.full(LABELS, True), log_prior)
    learned = np.exp(learn_prior(log_prior, ended, first))
    by_hand = np.exp(-FIRST_LABELS * np.array([0.1, 3.0, 3.0]))
    deserved = (1 - FIRST_SHARE) * by_hand / by_hand.sum() + FIRST_SHARE * PRIOR
    np.testing.assert_allclose(learned, PRIOR + (deserved - PRIOR) / TASKS, atol=1e-12)
    for _ in range(500):
        log_prior = learn_prior(log_prior, ended, first)
    assert np.exp(log_prior).min() > 0.9 * FIRST_SHARE * PRIOR.min()
    np.testing.assert_allclose(np.exp(log_prior).sum(), 1)
    nothing = Weights.start(log_prior)  # a task that ended without a label teaches nothing
    np.testing.assert_array_equal(learn_prior(log_prior, nothing, first), log_prior)
