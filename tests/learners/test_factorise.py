"""Matrices are factorised as NumPy does it, also in batches and with gradients; LAPACK gets one at a time."""

from __future__ import annotations

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anyshot.learners.factorise import decompose, solve_positive, solve_ridge
from anyshot.learners.learner import Drawn
from anyshot.shots import Episodes, Shots
from tests.support.learners import INPUT, build

SIZES = (2, 3, 5, 5)


def matrices() -> np.ndarray:
    draw = np.random.default_rng(0).normal(size=SIZES)
    return draw @ draw.swapaxes(-1, -2) + np.eye(SIZES[-1])


def test_batches_are_solved_as_by_numpy_and_gradients_are_those_of_the_inverse() -> None:
    matrix, right = matrices(), np.random.default_rng(1).normal(size=(*SIZES[:3], 2))
    solve = jax.vmap(jax.vmap(solve_positive))
    expected = np.linalg.solve(matrix, right)
    np.testing.assert_allclose(solve(matrix, right), expected, rtol=1e-10)
    # With f = |X|², X = M⁻¹B: df/dB = 2 M⁻¹X, and df/dM = -(df/dB) Xᵀ.
    of_matrix, of_right = jax.grad(lambda *both: jnp.sum(solve(*both) ** 2), argnums=(0, 1))(matrix, right)
    by_right = 2 * np.linalg.solve(matrix, expected)
    np.testing.assert_allclose(of_right, by_right, rtol=1e-9)
    np.testing.assert_allclose(of_matrix, -by_right @ expected.swapaxes(-1, -2), rtol=1e-9)


@pytest.mark.parametrize("ridge", [0.0, 1e-9, 1.0])
@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_a_singular_matrix_with_hardly_a_ridge_has_a_solution_in_float32(ridge: float, unit: float) -> None:
    x = np.random.default_rng(0).normal(size=(40, 3)) @ np.random.default_rng(1).normal(size=(3, 60))
    matrix, right = (x.T @ x * unit).astype(np.float32), (x.T @ np.ones((40, 1)) * unit).astype(np.float32)
    found = solve_ridge(jnp.asarray(matrix), jnp.asarray(right), jnp.float32(ridge))
    least = 10 * np.finfo(np.float32).eps * np.trace(matrix)
    exact = np.linalg.solve(matrix.astype(float) + max(ridge, least) * np.eye(60), right.astype(float))
    np.testing.assert_allclose(matrix @ found, matrix @ exact, atol=1e-3 * np.abs(matrix @ exact).max())


def test_batches_are_decomposed_as_by_numpy() -> None:
    values, vectors = jax.vmap(jax.vmap(decompose))(matrices())
    np.testing.assert_allclose(values, np.linalg.eigvalsh(matrices()), rtol=1e-10)
    np.testing.assert_allclose((vectors * values[..., None, :]) @ vectors.swapaxes(-1, -2), matrices(), atol=1e-12)


@pytest.mark.parametrize("name", ["anyshot", "ridge-head", "scratch"])
@pytest.mark.parametrize("labels", [jnp.int32, jnp.float32])
def test_learners_give_lapack_one_matrix_at_a_time(name: str, labels: jnp.dtype) -> None:
    """Given a batch, jaxlib waits in the threads that run the program, and two CPU devices hung."""
    of_classes = labels is jnp.int32
    example = (INPUT, jax.ShapeDtypeStruct((), labels))
    learner = build(name, outputs=3 if of_classes else 1, example=example, max_shots=4)
    state = learner.init(jax.random.key(0))
    tasks = Shots(jnp.zeros((7, 2, *INPUT.shape), INPUT.dtype), jnp.zeros((7, 2), labels), jnp.zeros(7, jnp.int32))
    predict = eqx.filter_jit(eqx.filter_vmap(learner.predict, in_axes=(None, 0, 0)))
    programs = [predict.lower(state, tasks, tasks.x)]
    if "episodes" in learner.wants:
        drawn = Drawn(episodes=Episodes(tasks, tasks))
        programs.append(eqx.filter_jit(learner.update).lower(state, drawn, jax.random.key(1)))
    for program in programs:
        calls = [line for line in program.as_text().splitlines() if "@lapack" in line]
        assert calls
        for line in calls:
            for shape in re.findall(r"tensor<([0-9x]*)x[fi]\d+>", line.rsplit(":", 1)[1]):
                assert shape.count("x") <= 1, line  # two dimensions at most, so no batch
