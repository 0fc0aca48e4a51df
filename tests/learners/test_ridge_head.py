"""Ridge regression on learned features: the closed form, its gradient, and what few and many shots do."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from anyshot import Shots
from anyshot.learners import Drawn
from anyshot.learners.ridge_head import CONSTANT, LEAST_RIDGE, RidgeHead
from anyshot.shots import Episodes
from tests.support.learners import INPUT, KEY, M, N, build, some, stacked
from tests.support.refusals import assert_refused

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]
FEATURES = 4


def classes() -> Any:
    return build("ridge-head", features=FEATURES, meta_rate=0.01)


def targets() -> Any:
    return build("ridge-head", features=FEATURES, example=(INPUT, INPUT), meta_rate=0.01)


def learned(learner: Any) -> Any:
    """A state whose prior mean is not zero."""
    state = learner.init(KEY)
    mean = jax.random.normal(jax.random.key(7), state.model.mean.shape)
    return eqx.tree_at(lambda s: (s.model.mean, s.model.log_ridge), state, (mean, jnp.asarray(-1.3)))


def features_by_hand(head: Any, x: Any) -> np.ndarray:
    rows = []
    for one in np.asarray(x):
        found = np.asarray(head.model(jnp.asarray(one)))
        rows.append([*np.where(found > 0, found, 0.01 * found) / FEATURES**0.5, CONSTANT])
    return np.array(rows).reshape(len(rows), FEATURES + 1)


def outputs_by_hand(learner: Any, head: Any, shots: Shots, query: Any) -> np.ndarray:
    """By scikit-learn: the shots pull the weights away from their prior mean."""
    n = int(shots.count)
    phi, mean = features_by_hand(head, shots.x[:n]), np.asarray(head.mean)
    y = np.asarray(shots.y[:n])
    if learner.spec.problem.classification:
        y = np.eye(N)[y] - 1 / N
    weights = mean.copy()
    if n:
        ridge = Ridge(alpha=LEAST_RIDGE + float(np.exp(head.log_ridge)), fit_intercept=False, solver="svd")
        weights += ridge.fit(phi, y - phi @ mean).coef_.T
    found = features_by_hand(head, query) @ weights
    return found * float(np.exp(head.log_scale)) if learner.spec.problem.classification else found


@pytest.mark.parametrize("make", [classes, targets])
@given(count=st.integers(0, 6), padding=st.integers(0, 2), seed=st.integers(0, 50))
def test_predictions_are_those_of_ridge_regression_around_the_prior_mean(
    make: Any, count: int, padding: int, seed: int
) -> None:
    learner = make()
    state, shots, query = learned(learner), some(count, seed, size=6 + padding), some(5, seed + 1).x
    if make is targets:
        shots = Shots(shots.x, 2 * shots.x[:, ::-1], shots.count)
    dirty = shots.x.at[count:].set(jnp.nan)
    found = predict(learner, state, Shots(dirty, shots.y, shots.count), query)
    np.testing.assert_allclose(found, outputs_by_hand(learner, state.model, shots, query), rtol=1e-8, atol=1e-10)


@eqx.filter_jit
def predict(learner: Any, state: Any, shots: Shots, query: Any) -> Any:
    return learner.predict(state, shots, query)


def test_an_update_descends_the_loss_after_adaptation_written_in_the_other_form() -> None:
    learner = classes()
    state = learned(learner)
    episodes = [Episodes(some(count, 10 + count, size=M), some(count + 1, 20 + count, size=M + 1)) for count in (0, 2)]

    def loss(head: Any) -> Any:
        """With Φᵀ(ΦΦᵀ + λI)⁻¹, shot by shot, without padding."""
        total = 0.0
        for one in episodes:
            n, m = int(one.train.count), int(one.val.count)
            phi, query = (
                jnp.stack([jnp.append(jax.nn.leaky_relu(head.model(x)) / FEATURES**0.5, CONSTANT) for x in xs])
                for xs in (one.train.x[: max(n, 1)], one.val.x[:m])
            )
            w = head.mean
            if n:
                y = jnp.eye(N)[one.train.y[:n]] - 1 / N
                gram = phi @ phi.T + (LEAST_RIDGE + jnp.exp(head.log_ridge)) * jnp.eye(n)
                w = w + phi.T @ jnp.linalg.inv(gram) @ (y - phi @ w)
            p = jax.nn.log_softmax(jnp.exp(head.log_scale) * query @ w)
            total -= p[jnp.arange(m), one.val.y[:m]].mean() / len(episodes)
        return total

    value, gradient = eqx.filter_value_and_grad(loss)(state.model)
    optimiser = optax.chain(optax.clip_by_global_norm(learner.hyper.meta_clip), optax.adam(0.01))
    arrays = eqx.filter(state.model, eqx.is_inexact_array)
    changes, _ = optimiser.update(gradient, optimiser.init(arrays))
    expected = eqx.apply_updates(state.model, changes)
    after, metrics = eqx.filter_jit(learner.update)(state, Drawn(episodes=stacked(*episodes)), KEY)
    assert metrics["loss"] == pytest.approx(float(value), rel=1e-10)
    for got, want in zip(*(jax.tree.leaves(eqx.filter(h, eqx.is_array)) for h in (after.model, expected)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9)
    assert not np.array_equal(after.model.log_ridge, state.model.log_ridge)


def test_a_ridge_that_vanishes_leaves_numbers_in_float32() -> None:
    with jax.enable_x64(False):
        learner = build("ridge-head", features=FEATURES, example=(jax.ShapeDtypeStruct((N,), np.float32), INPUT))
        state = learner.init(KEY)
        state = eqx.tree_at(lambda s: s.model.log_ridge, state, jnp.asarray(-80.0))
        x = jnp.ones((6, N), jnp.float32)  # six times the same input
        shots = Shots(x, x, jnp.asarray(6, jnp.int32))
        np.testing.assert_allclose(learner.predict(state, shots, x), x, atol=1e-2)


@pytest.mark.parametrize("unit", [1e-6, 1e4, 1e8])
def test_inputs_of_any_unit_leave_numbers_in_float32(unit: float) -> None:
    with jax.enable_x64(False):
        learner = build("ridge-head", features=FEATURES, example=(jax.ShapeDtypeStruct((N,), np.float32), INPUT))
        draw = np.random.default_rng(0)
        x, y = draw.normal(size=(40, N)).astype(np.float32), draw.normal(size=(40, N)).astype(np.float32)
        shots = Shots(jnp.asarray(unit * x), jnp.asarray(y), jnp.asarray(40, jnp.int32))
        found = learner.predict(learner.init(KEY), shots, shots.x)
        assert np.mean((found - y) ** 2) <= np.mean(y**2) + 1e-3


def test_it_uses_all_labels_and_says_its_features() -> None:
    learner = classes()
    assert isinstance(learner, RidgeHead)
    assert learner.uses_all_labels
    state, x = learned(learner), some(3).x
    np.testing.assert_allclose(learner.features(state, x), features_by_hand(state.model, x)[:, :-1], rtol=1e-8)


@pytest.mark.parametrize("wrong", [0, 1.5, True, 10**9])
def test_a_number_of_features_that_cannot_be_is_refused(wrong: Any) -> None:
    assert_refused(lambda: build("ridge-head", features=wrong), ["features", repr(wrong)])
