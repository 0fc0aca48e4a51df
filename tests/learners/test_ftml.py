"""FTML predicts after the steps of U, and reports the step sizes of its rule."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anyshot import Episodes, GaussianWeights
from anyshot.learners import Drawn
from tests.support import reference
from tests.support.learners import KEY, NAMES, RULED, M, build, some, stacked

GRADIENT = jax.jit(jax.value_and_grad(reference.mean_cross_entropy))

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.mark.parametrize("name", RULED)
def test_ftml_predicts_with_the_prior_weights_at_zero_shots(name: str) -> None:
    learner = build(name)
    state, query = learner.init(KEY), some(4, seed=1).x
    outputs = jax.jit(learner.predict)(state, some(0, size=4), query)
    np.testing.assert_allclose(outputs, jax.vmap(state.weights)(query), rtol=1e-14)


def test_ftml_with_gaussian_weights_predicts_with_their_mean() -> None:
    learner = build("ftml", kl_coefficient=1e-3)
    state, query = learner.init(KEY), some(4, seed=1).x
    assert isinstance(state.weights, GaussianWeights)
    outputs = jax.jit(learner.predict)(state, some(0, size=4), query)
    np.testing.assert_allclose(outputs, jax.vmap(state.weights.mean)(query), rtol=1e-14)


def test_ftml_vs_predicts_after_the_steps_of_u() -> None:
    learner = build("ftml-vs", inner_steps=3, inner_clip=0.5, inner_rate=0.7, eta=0.4)
    predict = jax.jit(learner.predict)
    adapted = jax.jit(partial(reference.adapted, loss=reference.mean_cross_entropy, steps=3, clip=0.5))
    state, query = learner.init(KEY), some(4, seed=1).x
    raw = {"log_beta": np.log(0.7), "log_eta": np.log(0.4)}
    for shots in (1, M, M + 2):  # more than M counts as M
        support = some(shots, seed=shots, size=6)
        x, y = support.x[:shots], support.y[:shots]
        alpha = jnp.asarray(reference.step_size("Scaled", raw, shots, M))
        by_hand = adapted(state.weights, alpha, x, y)
        np.testing.assert_allclose(predict(state, support, query), jax.vmap(by_hand)(query), rtol=1e-8)


def moved_state(name: str) -> Any:
    """A state whose rule is not as it began."""
    state, draw = build(name).init(KEY), np.random.default_rng(0)
    arrays, rest = eqx.partition(state.rate, eqx.is_array)
    arrays = jax.tree.map(lambda leaf: leaf + jnp.asarray(draw.uniform(0, 1, leaf.shape)), arrays)
    return dataclasses.replace(state, rate=eqx.combine(arrays, rest))


def mean_exp(tree: Any) -> float:
    return float(np.mean(np.exp(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]))))


def rates_by_hand(name: str, rule: Any) -> dict[str, Any]:
    s = np.arange(M + 1)
    if name == "ftml":
        return {"alpha": np.full(M + 1, 0.1)}
    if name == "ftml-learned-constant":
        return {"alpha": np.full(M + 1, np.exp(rule.log_alpha))}
    if name == "ftml-vl":
        return {"alpha": np.exp(rule.log_alpha)}
    if name == "ftml+meta-sgd":
        return {"alpha": np.full(M + 1, mean_exp(rule.log_alpha))}
    if name == "ftml-vs-closed-form":
        beta, eta = np.exp(rule.log_beta), rule.squared_mean_gradient / rule.gradient_variance
        return {"alpha": beta * (1 - 1 / (1 + eta * s)), "beta": beta, "eta": eta}
    eta = np.exp(rule.log_eta)
    if name == "ftml-vs":
        beta = np.exp(rule.log_beta)
        return {"alpha": beta * (1 - 1 / (1 + eta * s)), "beta": beta, "eta": eta}
    assert name == "ftml-vs+meta-sgd"  # β has a value for every parameter: its mean is in alpha
    return {"alpha": mean_exp(rule.log_beta) * (1 - 1 / (1 + eta * s)), "eta": eta}


@pytest.mark.parametrize("name", RULED)
def test_rates_are_those_of_the_formula(name: str) -> None:
    state = moved_state(name)
    ours, by_hand = build(name).rates(state), rates_by_hand(name, state.rate)
    assert ours.keys() == by_hand.keys()
    for key, value in by_hand.items():
        np.testing.assert_allclose(ours[key], value, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("name", "learned"), [("ftml", False), ("ftml-learned-constant", True)])
def test_the_constant_rates_do_not_depend_on_the_shots_and_one_of_them_is_learned(name: str, learned: bool) -> None:
    learner = build(name, inner_rate=0.3, meta_rate=0.01)
    tasks = [some(4, seed=seed) for seed in (1, 2)]
    drawn = Drawn(episodes=Episodes(stacked(*tasks), stacked(*tasks)))
    before = learner.init(KEY)
    after, _ = jax.jit(learner.update)(before, drawn, KEY)
    for state in (before, after):
        np.testing.assert_array_equal(learner.rates(state)["alpha"], np.full(M + 1, learner.rates(state)["alpha"][0]))
    start, end = (float(learner.rates(state)["alpha"][0]) for state in (before, after))
    assert start == pytest.approx(0.3, rel=1e-12)
    # The first step of Adam changes the logarithm by its rate.
    assert abs(np.log(end / start)) == pytest.approx(0.01 if learned else 0.0, rel=1e-4)


def test_learners_without_a_rule_have_no_rates() -> None:
    for name in set(NAMES) - set(RULED) - {"anyshot"}:  # which has the rates of FTML-VS
        assert build(name).rates(build(name).init(KEY)) == {}


def test_the_closed_form_follows_the_gradients() -> None:
    """C1 and C2 move a tenth of the way to what theorem 1 measures on the validation points, at the weights before."""
    learner = build("ftml-vs-closed-form")
    state = learner.init(KEY)
    tasks = [some(4, seed=seed) for seed in (1, 2)]
    after, _ = jax.jit(learner.update)(state, Drawn(episodes=Episodes(stacked(*tasks), stacked(*tasks))), KEY)
    variances, squares = [], []
    for task in tasks:
        trees = [GRADIENT(state.weights, task.x[i : i + 1], task.y[i : i + 1])[1] for i in range(4)]
        g = np.stack([np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]) for tree in trees])
        variances.append(np.var(g, axis=0, ddof=1).sum())
        squares.append(np.sum(g.mean(axis=0) ** 2) - variances[-1] / 4)
    np.testing.assert_allclose(after.rate.gradient_variance, 0.9 + 0.1 * np.mean(variances), rtol=1e-10)
    np.testing.assert_allclose(after.rate.squared_mean_gradient, 0.9 + 0.1 * max(np.mean(squares), 0), rtol=1e-10)
