"""Theorem 1 against simulation: draw s shots many times, and see which step size comes closest to the true update."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anyshot.adaptation import (
    GradientMoments,
    MetaObjective,
    Update,
    cross_entropy,
    gradient_moments,
    optimal_rate,
    remeasure,
    squared_error,
)
from anyshot.networks import MLP
from anyshot.rates import ClosedForm, Constant, Scaled
from anyshot.shots import Episodes, Shots, stack_tasks

BETA = 0.7
TASKS = 4
POPULATION = 24  # datapoints of each task; shots are drawn from them with replacement
NUMBERS = [1, 2, 3, 4, 6, 9, 14, 22, 35, 60, 110, 200]
BATCHES = 25
KINDS = {"cross entropy": cross_entropy, "squared error": squared_error}
moments_of = eqx.filter_jit(gradient_moments)


class Problem(NamedTuple):
    """A model and the whole populations of several tasks, with what theorem 1 asks of them."""

    model: Any
    loss: Any
    tasks: Shots
    gradients: np.ndarray  # (tasks, datapoints, parameters)
    c1: float
    c2: float


def make_problem(kind: str, seed: int) -> Problem:
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(TASKS, POPULATION, 2)) + draw.normal(size=(TASKS, 1, 2))
    if kind == "cross entropy":
        model: Any = MLP((2, 4, 3), key=jax.random.key(seed))
        y = np.argmax(x @ draw.normal(size=(TASKS, 2, 3)) + 2 * draw.normal(size=(TASKS, POPULATION, 3)), axis=-1)
    else:
        model = MLP((2, 1), key=jax.random.key(seed))
        y = x @ draw.normal(size=(TASKS, 2, 1)) + 2 * draw.normal(size=(TASKS, POPULATION, 1))
    tasks = stack_tasks([Shots.of(*task) for task in zip(x, y, strict=True)])
    gradients = np.asarray(_gradients(model, KINDS[kind], tasks))
    mean = gradients.mean(axis=1, keepdims=True)
    c1 = ((gradients - mean) ** 2).sum(axis=2).mean()
    return Problem(model, KINDS[kind], tasks, gradients, float(c1), float((mean**2).sum(axis=2).mean()))


@eqx.filter_jit
def _gradients(model: Any, loss: Any, tasks: Shots) -> Any:
    """Each datapoint's gradient: what one full step of U on that datapoint alone takes off the weights."""
    one_step = Update(loss, steps=1, clip=None)

    def of_datapoint(x: Any, y: Any) -> Any:
        adapted = one_step(model, Constant(1.0), Shots(x[None], y[None], jnp.asarray(1)))
        moved = jax.tree.map(lambda before, after: (before - after).reshape(-1), model, adapted)
        return jnp.concatenate(jax.tree.leaves(moved))

    return jax.vmap(jax.vmap(of_datapoint))(tasks.x, tasks.y)


def best_rate(problem: Problem, s: int, draw: np.random.Generator, draws: int = 1000) -> tuple[float, float]:
    """The α with the least mean squared distance between s-shot and true update over all draws; its standard error."""
    at = np.array([0.0, BETA / 2, BETA])
    distances = np.zeros((BATCHES, len(at)))
    for gradients in problem.gradients:
        times_drawn = draw.multinomial(s, np.full(POPULATION, 1 / POPULATION), size=(BATCHES, draws))
        sampled, true = (times_drawn / s) @ gradients, gradients.mean(axis=0)
        for column, alpha in enumerate(at):
            distances[:, column] += ((alpha * sampled - BETA * true) ** 2).sum(axis=-1).mean(axis=-1)

    def vertex(f: np.ndarray) -> np.ndarray:  # of the parabola through three points
        return BETA / 4 * (3 * f[..., 0] - 4 * f[..., 1] + f[..., 2]) / (f[..., 0] - 2 * f[..., 1] + f[..., 2])

    return float(vertex(distances.sum(axis=0))), float(vertex(distances).std(ddof=1) / np.sqrt(BATCHES))


@pytest.mark.medium
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_closed_form_is_the_best_rate_found_by_sampling(kind: str, seed: int) -> None:
    problem = make_problem(kind, seed)
    draw = np.random.default_rng(seed)
    found, error = np.array([best_rate(problem, s, draw) for s in NUMBERS]).T
    s = np.array(NUMBERS)

    def off_by(rates: Any) -> np.ndarray:
        return np.abs(np.asarray(rates) - found) / error

    exact = GradientMoments(jnp.asarray(problem.c1), jnp.asarray(problem.c2))
    assert off_by(optimal_rate(BETA, exact, jnp.asarray(s))).max() < 4
    # The test would notice another formula.
    assert error.max() < 0.02 * BETA
    eta = problem.c2 / problem.c1
    for wrong in (s / (s + 1), s / (s + eta), eta * s / (2 + eta * s), 1 - 1 / (1 + eta * (s + 1)), np.ones(len(s))):
        assert off_by(BETA * wrong).max() > 10


def test_limits() -> None:
    moments = GradientMoments(jnp.asarray(3.0), jnp.asarray(0.2))
    rates = np.asarray(optimal_rate(BETA, moments, jnp.arange(1000)))
    assert rates[0] == 0
    assert (np.diff(rates) > 0).all()
    assert (rates < BETA).all()
    np.testing.assert_allclose(optimal_rate(BETA, moments, 10**12), BETA, rtol=1e-10)
    np.testing.assert_allclose(rates[15], BETA / 2, rtol=1e-14)  # where s C2 = C1
    # Without variance one shot says it all; without a mean gradient nothing is to be gained.
    np.testing.assert_allclose(optimal_rate(BETA, moments._replace(variance=jnp.asarray(0.0)), 1), BETA, rtol=1e-14)
    assert optimal_rate(BETA, moments._replace(squared_mean=jnp.asarray(0.0)), 50) == 0


def drawn_tasks(problem: Problem, counts: np.ndarray, draw: np.random.Generator, size: int, junk: float) -> Shots:
    """For each count a task drawn from the populations in turn; `junk` behind the shots."""
    task = np.arange(len(counts)) % TASKS
    rows = draw.integers(0, POPULATION, size=(len(counts), counts.max()))
    padding = ((0, 0), (0, size - counts.max()), (0, 0))
    behind = np.arange(size) >= counts[:, None]
    x = np.pad(np.asarray(problem.tasks.x)[task[:, None], rows], padding)
    y = np.pad(np.asarray(problem.tasks.y)[task[:, None], rows], padding)
    x[behind] = y[behind] = junk
    return Shots(jnp.asarray(x), jnp.asarray(y), jnp.asarray(counts))


def test_moments_are_unbiased() -> None:
    """From two to five shots of each task, with NaN behind them, the mean of the estimates is C1 and C2."""
    problem = make_problem("squared error", 5)
    draw = np.random.default_rng(5)
    counts = np.repeat([2, 3, 4, 5], 200 * TASKS)
    batches = [
        moments_of(problem.model, problem.loss, drawn_tasks(problem, counts, draw, 5, np.nan)) for _ in range(BATCHES)
    ]
    estimates = np.array(batches)
    assert estimates.min() > 0, "the cut at zero must not act here: it is not unbiased"
    off_by = estimates.mean(axis=0) - [problem.c1, problem.c2]
    error = estimates.std(axis=0, ddof=1) / np.sqrt(BATCHES)
    assert (np.abs(off_by) < 4 * error).all()
    # The squared length of the sample mean, and the variance without Bessel's correction, would be noticed.
    assert error[0] < 0.02 * problem.c1
    assert problem.c1 * np.mean(1 / counts) > 10 * error[1]


def test_moments_use_what_is_there_and_nothing_else() -> None:
    problem = make_problem("squared error", 6)
    shots = drawn_tasks(problem, np.array([2, 5, 3]), np.random.default_rng(0), 5, np.nan)
    expected = moments_of(problem.model, problem.loss, shots)
    variances, squares = [], []
    for x, y, n in zip(shots.x, shots.y, shots.count, strict=True):
        g = np.asarray(_gradients(problem.model, problem.loss, stack_tasks([Shots(x[:n], y[:n], n)])))[0]
        variances.append(g.var(axis=0, ddof=1).sum())
        squares.append((g.mean(axis=0) ** 2).sum() - variances[-1] / n)
    np.testing.assert_allclose(expected, [np.mean(variances), np.mean(squares)], rtol=1e-12)

    # Other padding, and two tasks that are too short to tell anything.
    more = drawn_tasks(problem, np.array([2, 5, 3, 0, 1]), np.random.default_rng(0), 8, np.inf)
    first_three = jax.tree.map(lambda new, old: new.at[:3, :5].set(old), (more.x, more.y), (shots.x, shots.y))
    more = Shots(*first_three, more.count)
    np.testing.assert_allclose(moments_of(problem.model, problem.loss, more), expected, rtol=1e-12)


def test_squared_mean_is_cut_at_zero() -> None:
    model = jax.tree_util.Partial(jnp.multiply, jnp.array(0.0))
    opposite = stack_tasks([Shots.of([1.0, 1.0], [1.0, -1.0])])  # gradients -2 and 2: 0 - 8/2 is below zero
    assert tuple(gradient_moments(model, squared_error, opposite)) == (8.0, 0.0)


def test_remeasuring_changes_the_estimates_alone_and_passes_no_gradient() -> None:
    problem = make_problem("squared error", 7)
    rule = ClosedForm(0.3, 1.0, 1.0, max_shots=9)

    def renewed(model: Any) -> ClosedForm:
        return remeasure(rule, model, problem.loss, problem.tasks)

    new = eqx.filter_jit(renewed)(problem.model)
    expected = 0.9 + 0.1 * np.array(moments_of(problem.model, problem.loss, problem.tasks))
    np.testing.assert_allclose((new.gradient_variance, new.squared_mean_gradient), expected, rtol=1e-12)
    restored = eqx.tree_at(
        lambda r: (r.gradient_variance, r.squared_mean_gradient), new, (jnp.array(1.0), jnp.array(1.0))
    )
    assert eqx.tree_equal(restored, rule)
    for leaf in jax.tree.leaves(eqx.filter_jit(eqx.filter_grad(lambda model: renewed(model)(3)))(problem.model)):
        np.testing.assert_array_equal(leaf, 0)

    few = Shots(problem.tasks.x[:, :3], problem.tasks.y[:, :3], jnp.array([0, 1, 2, 3]))
    objective = eqx.filter_jit(MetaObjective(Update(squared_error, steps=2)).value_and_grad)
    value, (d_model, d_rule) = objective(problem.model, new, Episodes(few, problem.tasks))
    assert d_rule.gradient_variance == 0
    assert d_rule.squared_mean_gradient == 0
    assert d_rule.log_beta != 0
    # With η = C2/C1 the learned rule takes the same steps.
    same_steps = Scaled(0.3, float(new.squared_mean_gradient / new.gradient_variance), 9)
    other_value, (d_other_model, d_same_steps) = objective(problem.model, same_steps, Episodes(few, problem.tasks))
    np.testing.assert_allclose(value, other_value, rtol=1e-12)
    np.testing.assert_allclose(d_rule.log_beta, d_same_steps.log_beta, rtol=1e-10)
    for ours, theirs in zip(jax.tree.leaves(d_model), jax.tree.leaves(d_other_model), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-12)


def test_remeasuring_needs_a_task_with_two_datapoints() -> None:
    problem = make_problem("squared error", 8)
    rule = ClosedForm(0.3, 4.0, 3.0, max_shots=9)
    single = Shots(problem.tasks.x, problem.tasks.y, jnp.array([0, 1, 1, 0]))
    assert remeasure(rule, problem.model, problem.loss, single) is rule
    compiled = eqx.filter_jit(lambda shots: remeasure(rule, problem.model, problem.loss, shots))
    assert eqx.tree_equal(compiled(single), rule)
    assert not eqx.tree_equal(compiled(problem.tasks), rule)
