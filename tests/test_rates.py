"""Step-size rules against their formulas, and what users may plug in: their own rules, their own models, all cores."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anyshot
from anyshot import (
    ClosedForm,
    Constant,
    Episodes,
    MetaObjective,
    PerParameter,
    PerShot,
    Rate,
    Scaled,
    ScaledPerParameter,
    Shots,
    Update,
    cross_entropy,
    squared_error,
    stack_tasks,
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
KINDS = ["Constant", "PerShot", "Scaled", "PerParameter", "ScaledPerParameter", "ClosedForm"]
numbers_of_shots = st.integers(0, 3 * M)
positive = st.floats(1e-6, 1e3)
logarithms = st.floats(-100, 100)


def make(kind: str, size: float, eta: float) -> Rate:
    """A rule of full step `size`, which trusts the gradient by `eta`."""
    rules: dict[str, Any] = {
        "Constant": lambda: Constant(size),
        "PerShot": lambda: PerShot(size, M),
        "Scaled": lambda: Scaled(size, eta, M),
        "PerParameter": lambda: PerParameter(MODEL, size),
        "ScaledPerParameter": lambda: ScaledPerParameter(MODEL, size, eta, M),
        "ClosedForm": lambda: ClosedForm(size, 3.0, 3.0 * eta, M),
    }
    return rules[kind]()


def formula(kind: str, size: float, eta: float, s: int) -> float:
    """α_s of section 4.2, for min{s, M} shots."""
    if kind in ("Constant", "PerShot", "PerParameter"):
        return size
    return size * (1 - 1 / (1 + eta * min(s, M)))


@pytest.mark.parametrize("kind", KINDS)
@given(s=numbers_of_shots, size=positive, eta=positive)
def test_formula(kind: str, s: int, size: float, eta: float) -> None:
    for leaf in jax.tree.leaves(make(kind, size, eta)(s)):
        np.testing.assert_allclose(leaf, formula(kind, size, eta, s), rtol=1e-9, atol=1e-16 * size)


@pytest.mark.parametrize("kind", KINDS)
def test_the_numbers_of_a_recipe_are_where_a_rule_starts(kind: str) -> None:
    rule = getattr(anyshot, kind).initial(MODEL, inner_rate=0.3, eta=0.7, max_shots=M)
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
        eqx.filter_jit(MetaObjective(update, tasks=mode).value_and_grad)(model, Scaled(0.5), episodes)
        for mode in ("in turn", "together")
    ]
    expected = np.mean([update.risk(update(model, Scaled(0.5), one), one) for one in shots])
    np.testing.assert_allclose(results[0][0], expected, rtol=1e-12)
    for ours, theirs in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-13)
    d_model, _ = results[0][1]
    assert jax.tree.structure(d_model) == jax.tree.structure(eqx.filter(model, eqx.is_inexact_array))


ON_CORES = """
import sys
import equinox as eqx, jax, numpy as np
jax.config.update("jax_enable_x64", True)
from anyshot import Episodes, MetaObjective, Scaled, Shots, Update, stack_tasks, use_cpu_cores
from anyshot.networks import MLP

cores = int(sys.argv[1])
assert use_cpu_cores(cores) == cores
assert len(jax.local_devices()) == cores
draw = np.random.default_rng(0)
def tasks(counts):
    return stack_tasks([Shots.of(draw.normal(size=(n, 2)), draw.integers(0, 3, n), size=2) for n in counts])
episodes = Episodes(tasks([1, 0, 2, 1, 2]), tasks([1, 2, 2, 1, 2]))  # five tasks: one core has none in the last round
objective = MetaObjective(Update(steps=2), tasks="in turn")
result = eqx.filter_jit(objective.value_and_grad)(MLP((2, 4, 3), key=jax.random.key(0)), Scaled(0.3), episodes)
for leaf in jax.tree.leaves(result):
    print(*(float(number).hex() for number in np.asarray(leaf).reshape(-1)))
"""


def test_two_cores_compute_what_one_computes() -> None:
    """In processes of their own, as cores must be asked for before JAX starts."""
    quick_compile = {**os.environ, "XLA_FLAGS": "--xla_backend_optimization_level=0"}
    running = [
        subprocess.Popen([sys.executable, "-c", ON_CORES, cores], env=quick_compile, stdout=subprocess.PIPE, text=True)
        for cores in ("1", "2")
    ]
    one, two = (process.communicate()[0] for process in running)
    assert [process.returncode for process in running] == [0, 0]
    ours, theirs = ([[float.fromhex(n) for n in row.split()] for row in text.splitlines()] for text in (two, one))
    assert len(ours) == len(theirs) == 1 + 4 + 2  # the loss, two layers of weight and bias, log β and log η
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    assert max(abs(n) for row in ours[1:] for n in row) > 1e-3
