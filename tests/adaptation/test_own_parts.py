"""What users may plug into the update procedure and the meta-objective: their own rules and their own models."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anyshot.adaptation import MetaObjective, Update, cross_entropy, squared_error
from anyshot.rates import Constant, PerParameter, Rate, Scaled
from anyshot.shots import Episodes, Shots, stack_tasks

pytestmark = pytest.mark.usefixtures("quick_compilation")


class Rooted(Rate):
    """A user's rule: α_s = γ sqrt(s)."""

    gamma: Any

    def __call__(self, shots: Any) -> Any:
        return self.gamma * jnp.sqrt(jnp.asarray(shots, float))


def line(weights: dict[str, Any], x: Any) -> Any:
    return weights["slope"] @ x + weights["offset"]


def data(y_shape: tuple[int, ...], draw: np.random.Generator) -> tuple[Episodes, list[Any]]:
    tasks = [(draw.normal(size=(n, 2)), draw.normal(size=(n, *y_shape))) for n in (0, 3, 5)]
    shots = [Shots.of(*task, size=5) for task in tasks]
    return Episodes(stack_tasks(shots), stack_tasks([shots[1]] * 3)), tasks


def test_a_rule_and_a_model_of_the_users_own() -> None:
    """A rule in three lines, and a function with a dict of weights, in U and in the meta-objective."""
    episodes, tasks = data((), np.random.default_rng(0))
    slope, offset = np.array([0.3, -0.2]), 0.1
    model = jax.tree_util.Partial(line, {"slope": jnp.asarray(slope), "offset": jnp.asarray(offset)})
    rule, update = Rooted(jnp.asarray(0.04)), Update(squared_error, steps=1, clip=None)

    def by_hand(gamma: float) -> list[np.ndarray]:
        """Slope and offset after one step on the mean squared error, worked out on paper."""
        after = []
        for x, y in tasks:
            residual = x @ slope + offset - y
            gradient = 2 * np.array([*(x.T @ residual), residual.sum()]) / max(len(y), 1)
            after.append(np.array([*slope, offset]) - gamma * np.sqrt(len(y)) * gradient)
        return after

    def loss_by_hand(gamma: float) -> float:
        x, y = tasks[1]
        return float(np.mean([np.mean((x @ after[:2] + after[2] - y) ** 2) for after in by_hand(gamma)]))

    for (x, y), after in zip(tasks, by_hand(0.04), strict=True):
        adapted = update(model, rule, Shots.of(x, y))
        np.testing.assert_allclose(adapted.args[0]["slope"], after[:2], rtol=1e-12)
        np.testing.assert_allclose(adapted.args[0]["offset"], after[2], rtol=1e-12)
    value, (d_model, d_rule) = eqx.filter_jit(MetaObjective(update).value_and_grad)(model, rule, episodes)
    np.testing.assert_allclose(value, loss_by_hand(0.04), rtol=1e-12)
    # A parabola in gamma, so the central difference is exact.
    np.testing.assert_allclose(d_rule.gamma, (loss_by_hand(0.05) - loss_by_hand(0.03)) / 0.02, rtol=1e-9)
    assert jax.tree.structure(d_model) == jax.tree.structure(model)


def test_a_rule_may_return_a_plain_number() -> None:
    class Tenth(Rate):
        def __call__(self, shots: Any) -> Any:
            return 0.1

    model = jax.tree_util.Partial(line, {"slope": jnp.array([0.3, -0.2]), "offset": jnp.asarray(0.1)})
    shots = Shots.of(np.ones((3, 2)), np.ones(3))
    plain, constant = (Update(squared_error, steps=2)(model, rule, shots) for rule in (Tenth(), Constant(0.1)))
    assert eqx.tree_equal(plain, constant)


@pytest.mark.slow
def test_an_equinox_network() -> None:
    """Activation functions and other static leaves pass through U and the meta-objective untouched."""
    model = eqx.nn.MLP(2, 3, 4, 1, key=jax.random.key(0))
    draw = np.random.default_rng(1)
    shots = [Shots.of(draw.normal(size=(n, 2)), draw.integers(0, 3, n), size=4) for n in (4, 2)]
    update = Update(cross_entropy, steps=2)
    adapted = eqx.filter_jit(update)(model, PerParameter(model, 0.5), shots[0])
    assert jax.tree.structure(adapted) == jax.tree.structure(model)
    assert adapted.activation is model.activation or jax.tree.leaves(adapted.activation) == []
    assert update.risk(adapted, shots[0]) < update.risk(model, shots[0])

    episodes = Episodes(stack_tasks(shots), stack_tasks(shots))
    results = [
        eqx.filter_jit(MetaObjective(update, batching=mode).value_and_grad)(model, Scaled(0.5), episodes)
        for mode in ("in turn", "together")
    ]
    expected = np.mean([update.risk(update(model, Scaled(0.5), one), one) for one in shots])
    np.testing.assert_allclose(results[0][0], expected, rtol=1e-12)
    for ours, theirs in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-13)
    d_model, _ = results[0][1]
    assert jax.tree.structure(d_model) == jax.tree.structure(eqx.filter(model, eqx.is_inexact_array))
