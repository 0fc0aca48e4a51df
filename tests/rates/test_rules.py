"""Step-size rules against their formulas."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshot.rates import (
    RATES,
    ClosedForm,
    Constant,
    LearnedConstant,
    PerParameter,
    PerShot,
    Rate,
    Scaled,
    ScaledPerParameter,
)

pytestmark = pytest.mark.usefixtures("quick_compilation")

M = 6
MODEL = {
    "layers": [{"w": jnp.ones((3, 2)), "b": jnp.zeros(2)}, (jnp.ones(4), None)],
    "activation": jnp.tanh,
    "name": "nested",
    "labels": jnp.arange(3),  # not a float, so not a parameter
    "depth": 2,
}
KINDS = ["Constant", "LearnedConstant", "PerShot", "Scaled", "PerParameter", "ScaledPerParameter", "ClosedForm"]
numbers_of_shots = st.integers(0, 3 * M)
positive = st.floats(1e-6, 1e3)
logarithms = st.floats(-100, 100)


def make(kind: str, size: float, eta: float) -> Rate:
    """A rule of full step `size`, which trusts the gradient by `eta`."""
    rules: dict[str, Any] = {
        "Constant": lambda: Constant(size),
        "LearnedConstant": lambda: LearnedConstant(size),
        "PerShot": lambda: PerShot(size, M),
        "Scaled": lambda: Scaled(size, eta, M),
        "PerParameter": lambda: PerParameter(MODEL, size),
        "ScaledPerParameter": lambda: ScaledPerParameter(MODEL, size, eta, M),
        "ClosedForm": lambda: ClosedForm(size, 3.0, 3.0 * eta, M),
    }
    return rules[kind]()


def formula(kind: str, size: float, eta: float, s: int) -> float:
    """α_s of section 4.2, for min{s, M} shots."""
    if kind in ("Constant", "LearnedConstant", "PerShot", "PerParameter"):
        return size
    return size * (1 - 1 / (1 + eta * min(s, M)))


@pytest.mark.parametrize("kind", KINDS)
@given(s=numbers_of_shots, size=positive, eta=positive)
def test_formula(kind: str, s: int, size: float, eta: float) -> None:
    for leaf in jax.tree.leaves(make(kind, size, eta)(s)):
        np.testing.assert_allclose(leaf, formula(kind, size, eta, s), rtol=1e-9, atol=1e-16 * size)


def test_every_rule_of_the_catalogue_is_tested_here() -> None:
    assert sorted(entry.load().__name__ for entry in RATES.values()) == sorted(KINDS)


@pytest.mark.parametrize("name", RATES)
def test_hyperparameters_are_where_a_rule_starts(name: str) -> None:
    rule = RATES.find(name).load().initial(MODEL, inner_rate=0.3, eta=0.7, max_shots=M)
    kind = type(rule).__name__
    eta = 1.0 if kind == "ClosedForm" else 0.7  # measured, not given: C1 and C2 are one before that
    for s in (0, 2, M, M + 2):
        for leaf in jax.tree.leaves(rule(s)):
            np.testing.assert_allclose(leaf, formula(kind, 0.3, eta, s), rtol=1e-9, atol=1e-17)


@given(s=numbers_of_shots, logs=st.lists(logarithms, min_size=M + 1, max_size=M + 1))
def test_per_shot_reads_its_own_entry(s: int, logs: list[float]) -> None:
    rule = eqx.tree_at(lambda r: r.log_alpha, PerShot(max_shots=M), jnp.asarray(logs))
    np.testing.assert_allclose(rule(s), np.exp(logs[min(s, M)]), rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@given(raw=logarithms, s=st.integers(1, 3 * M))
def test_learned_rates_stay_positive_whatever_is_learned(kind: str, raw: float, s: int) -> None:
    """Meta-learning may move the floating-point arrays anywhere; C1 and C2 are measured, not learned."""
    rule = make(kind, 0.1, 1.0)
    learned, rest = eqx.partition(rule, eqx.is_inexact_array)
    moved = eqx.combine(jax.tree.map(lambda leaf: jnp.full_like(leaf, raw), learned), rest)
    if isinstance(rule, ClosedForm):
        moved = eqx.tree_at(
            lambda r: (r.gradient_variance, r.squared_mean_gradient), moved, (jnp.array(2.0), jnp.array(1.0))
        )
    for leaf in jax.tree.leaves(moved(s)):
        assert (np.asarray(leaf) > 0).all()
        assert np.isfinite(leaf).all()


@pytest.mark.parametrize("kind", KINDS)
def test_compiled_and_batched(kind: str) -> None:
    """One compiled program for all numbers of shots; a batch of them by `vmap`, or directly where α is one number."""
    rule = make(kind, 0.3, 0.7)
    shots = jnp.arange(M + 3)
    one_by_one = [rule(int(s)) for s in shots]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *one_by_one)
    traces = []

    @jax.jit
    def compiled(s: Any) -> Any:
        traces.append(s)
        return rule(s)

    at_once = [compiled(s) for s in shots]
    assert len(traces) == 1
    candidates = [jax.tree.map(lambda *leaves: jnp.stack(leaves), *at_once), jax.jit(jax.vmap(rule))(shots)]
    if "PerParameter" not in kind:
        candidates.append(rule(shots))
    for candidate in candidates:
        assert jax.tree.structure(candidate) == jax.tree.structure(stacked)
        for ours, expected in zip(jax.tree.leaves(candidate), jax.tree.leaves(stacked), strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-14)


@pytest.mark.parametrize("kind", ["PerParameter", "ScaledPerParameter"])
def test_rates_per_parameter_follow_the_parameters_alone(kind: str) -> None:
    rates = make(kind, 0.3, 0.7)(2)
    parameters = eqx.filter(MODEL, eqx.is_inexact_array)
    assert jax.tree.structure(rates) == jax.tree.structure(parameters)
    assert jax.tree.map(jnp.shape, rates) == jax.tree.map(jnp.shape, parameters)
    mixed = {"half": jnp.ones(2, jnp.float16), "single": jnp.ones(2, jnp.float32)}
    for model in (mixed, jax.tree.map(lambda leaf: leaf.astype(jnp.float32), mixed)):
        ours = PerParameter(model)(1) if kind == "PerParameter" else ScaledPerParameter(model)(1)
        assert [leaf.dtype for leaf in jax.tree.leaves(ours)] == [leaf.dtype for leaf in jax.tree.leaves(model)]


def test_named_numbers_are_those_of_the_formula() -> None:
    named = {kind: make(kind, 0.3, 0.7).named() for kind in KINDS}
    assert {kind: set(numbers) for kind, numbers in named.items() if numbers} == {
        "Scaled": {"beta", "eta"},
        "ClosedForm": {"beta", "eta"},
        "ScaledPerParameter": {"eta"},
    }
    for numbers in named.values():
        for name, number in numbers.items():
            np.testing.assert_allclose(number, {"beta": 0.3, "eta": 0.7}[name], rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_closed_form_measures(kind: str) -> None:
    measured = []

    def measure() -> Any:
        measured.append(kind)
        return jnp.asarray(13.0), jnp.asarray(2.1)

    rule = make(kind, 0.3, 0.7)
    new = rule.remeasure(measure)
    if kind != "ClosedForm":
        assert new is rule
        assert not measured
    else:
        # Nine tenths of the old estimates 3 and 2.1, one tenth of the new ones.
        np.testing.assert_allclose((new.gradient_variance, new.squared_mean_gradient), (4.0, 2.1), rtol=1e-12)
        np.testing.assert_allclose(new(4), 0.3 * (1 - 1 / (1 + 2.1 / 4.0 * 4)), rtol=1e-12)
