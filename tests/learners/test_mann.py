"""MANN computes what the appendix describes, its gradient is right, and padding has no effect."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyshot import Episodes, Shots
from anyshot.learners import Drawn
from anyshot.learners.network_learner import ModelState
from anyshot.networks import MLP
from tests.support.learners import CLASS, build

pytestmark = pytest.mark.usefixtures("quick_compilation")

WIDTH, CLASSES, MOST = 3, 4, 5


def network(key: Any, outputs: int) -> MLP:
    return MLP((2, outputs), key=key)


def learner(classification: bool = True, **hyperparameters: Any) -> Any:
    label = CLASS if classification else jax.ShapeDtypeStruct((CLASSES,), float)
    example = (jax.ShapeDtypeStruct((2,), float), label)
    made = {"network": network, "outputs": CLASSES, "example": example, "max_shots": MOST, "memory": WIDTH}
    return build("mann", **made, **hyperparameters)


STATE = learner().init(jax.random.key(3))


def some(count: int, seed: int = 0, size: int = MOST) -> Shots:
    draw = np.random.default_rng(seed)
    return Shots.of(draw.normal(size=(count, 2)), draw.integers(0, CLASSES, count).astype(np.int32), size=size)


def by_hand(model: Any, support: Shots, query: np.ndarray) -> np.ndarray:
    """The network of appendix D with NumPy, one shot after another; the GRU as Cho et al. 2014 have it."""

    def sigmoid(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-x))

    def linear(layer: Any, x: np.ndarray) -> np.ndarray:
        return np.asarray(layer.weight) @ x + np.asarray(layer.bias)

    def features(x: np.ndarray) -> np.ndarray:
        return linear(model.features.layers[0], x)

    gru = jax.tree.map(np.asarray, eqx.filter(model.gru, eqx.is_array))
    state = np.zeros(WIDTH)
    for row in range(int(support.count)):
        label = np.eye(CLASSES)[int(support.y[row])]
        shot = np.concatenate([features(np.asarray(support.x[row])), linear(model.embedding, label)])
        of_shot = np.split(gru.weight_ih @ shot + gru.bias, 3)
        of_state = np.split(gru.weight_hh @ state, 3)
        reset, update = sigmoid(of_shot[0] + of_state[0]), sigmoid(of_shot[1] + of_state[1])
        new = np.tanh(of_shot[2] + reset * (of_state[2] + gru.bias_n))
        state = new + update * (state - new)
    seen = [np.concatenate([state, features(x)]) for x in query]
    if model.hidden is not None:
        sums = [linear(model.hidden, both) for both in seen]
        seen = [np.where(units > 0, units, 0.01 * units) for units in sums]
    return np.stack([linear(model.head, both) for both in seen])


@pytest.mark.parametrize(("count", "head_hidden"), [(0, 0), (1, 0), (MOST, 0), (2, 7)])
def test_predictions_are_those_of_the_appendix(count: int, head_hidden: int) -> None:
    """And with a hidden layer, too, if one is asked for. Only then do shots not shift all queries alike."""
    query, mann = np.random.default_rng(9).normal(size=(3, 2)), learner(head_hidden=head_hidden)
    state = mann.init(jax.random.key(3))
    ours = mann.predict(state, some(count), jnp.asarray(query))
    np.testing.assert_allclose(ours, by_hand(state.model, some(count), query), rtol=1e-12, atol=1e-12)
    shift = ours - mann.predict(state, some(0), jnp.asarray(query))
    assert np.allclose(shift, shift[:1], atol=1e-12) == (head_hidden == 0)


def test_regularisation_adds_the_gradient_of_the_kl_to_that_of_drawn_weights() -> None:
    """One step of plain descent is that of both terms, and predictions use the means."""
    import optax

    coefficient, key = 0.3, jax.random.key(7)
    mann = learner(memory_kl_coefficient=coefficient, optimiser=optax.sgd(1.0))
    before = mann.init(jax.random.key(3))
    tasks = [some(count, seed=count) for count in (1, MOST)]
    train = jax.tree.map(lambda *leaves: jnp.stack(leaves), *tasks)
    episodes = Episodes(train, train)
    after, _ = mann.update(before, Drawn(episodes=episodes), key)
    drawn = before.model.draw(key)
    gradient = eqx.filter_grad(lambda model: mann.meta_loss(model, episodes))(drawn)
    for mean, moved, slope in zip(
        jax.tree.leaves(eqx.filter(before.model.mean, eqx.is_array)),
        jax.tree.leaves(eqx.filter(after.model.mean, eqx.is_array)),
        jax.tree.leaves(gradient),
        strict=True,
    ):
        np.testing.assert_allclose(mean - moved, slope + coefficient * mean, rtol=1e-9, atol=1e-12)  # dKL/dmu = mu
    query = jnp.ones((2, 2))
    plain = learner().predict(ModelState(after.model.mean, None), some(3), query)
    np.testing.assert_array_equal(mann.predict(after, some(3), query), plain)


@pytest.mark.parametrize("classification", [True, False])
def test_the_gradient_of_the_meta_loss_is_that_of_finite_differences(classification: bool) -> None:
    mann = learner(classification)
    model = mann.init(jax.random.key(3)).model
    tasks = [some(count, seed=count) for count in (0, 2, MOST)]
    if not classification:
        tasks = [Shots(one.x, jnp.sin(one.x @ jnp.ones((2, CLASSES))), one.count) for one in tasks]
    train = jax.tree.map(lambda *leaves: jnp.stack(leaves), *tasks)
    episodes = Episodes(train, eqx.tree_at(lambda shots: shots.count, train, jnp.array([3, 4, 5])))
    flat, rebuild = jax.flatten_util.ravel_pytree(eqx.filter(model, eqx.is_array))
    static = eqx.filter(model, eqx.is_array, inverse=True)
    loss = jax.jit(lambda flat: mann.meta_loss(eqx.combine(rebuild(flat), static), episodes))
    gradient = jax.grad(loss)(flat)
    steps = 1e-5 * jnp.eye(flat.size)
    differences = jax.vmap(lambda step: (loss(flat + step) - loss(flat - step)) / 2e-5)(steps)
    np.testing.assert_allclose(gradient, differences, rtol=1e-6, atol=1e-9)
    moved = jnp.abs(gradient) > 0
    assert moved.mean() > 0.9  # every part of the network takes part


PREDICT = jax.jit(learner().predict)


@given(count=st.integers(0, MOST), seed=st.integers(0, 50), order=st.permutations(range(2)))
@settings(max_examples=25, deadline=None)
def test_what_pads_the_shots_and_in_which_order_is_irrelevant(count: int, seed: int, order: list[int]) -> None:
    shots = some(count, seed, size=MOST + 2)
    junk = np.random.default_rng(seed).normal(size=(MOST + 2, 2)) * np.array([np.nan, np.inf])
    places = np.concatenate([np.arange(MOST), MOST + np.asarray(order)])
    behind = np.arange(MOST + 2)[:, None] >= count
    padded = Shots(jnp.where(behind, junk[places], shots.x), jnp.where(behind[:, 0], CLASSES - 1, shots.y), shots.count)
    query = jnp.ones((1, 2))
    np.testing.assert_array_equal(PREDICT(STATE, shots, query), PREDICT(STATE, padded, query))
