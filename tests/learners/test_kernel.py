"""Models with a Gaussian kernel are those of scikit-learn, and padding changes nothing."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.kernel_ridge import KernelRidge

from anyshot import Shots
from anyshot.learners import scratch_kernel
from anyshot.learners.kernel import fit_kernel_logistic, fit_kernel_ridge
from tests.support.gaussian_kernels import centred, gaussian
from tests.support.learners import build
from tests.support.logistic import fit_reference

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]
CLASSES, QUERIES, SIZE, FEATURES = 4, 5, 9, 3
TOLERANCE = {np.float32: 2e-4, np.float64: 1e-6}
fit_classes = jax.jit(fit_kernel_logistic, static_argnames="classes")  # compiled once for all examples
fit_targets = jax.jit(fit_kernel_ridge)


@st.composite
def tasks(draw: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs and classes of datapoints, and queries: copies among them, offsets, few classes."""
    count = draw(st.integers(2, SIZE))
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    x = random.normal(size=(count + QUERIES, FEATURES)) * draw(st.sampled_from((0.01, 1.0, 30.0)))
    x += draw(st.sampled_from((0.0, 3.0)))
    if draw(st.booleans()):
        x[count - 1] = x[0]  # perhaps of another class
    return x[:count], random.integers(0, draw(st.integers(2, CLASSES)), count), x[count:]


def padded(array: np.ndarray, fill: float) -> Any:
    rest = np.full((SIZE + 2 - len(array), *array.shape[1:]), fill, array.dtype)
    return jnp.asarray(np.concatenate([array, rest]))


@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)])
@given(task=tasks(), regularisation=st.sampled_from((0.003, 0.1, 1.0)))
@settings(max_examples=60)
def test_classes_have_the_probabilities_of_scikit_learn(dtype: Any, task: Any, regularisation: float) -> None:
    x, y, query = task[0].astype(dtype), task[1], task[2].astype(dtype)
    present = jnp.arange(SIZE + 2) < len(x)
    model = fit_classes(padded(x, 7.0), padded(y, 1), present, classes=CLASSES, regularisation=regularisation)
    logits = np.asarray(model(jnp.asarray(query)), float)
    assert model.coefficients.dtype == dtype
    kernel, seen = gaussian(x.astype(float)), np.unique(y)
    if len(seen) == 1:
        np.testing.assert_allclose(logits[:, seen], 0, atol=1e-6)
        return
    # XXᵀ = K for X = UΛ^½, and a query has the coordinates k(query) UΛ^-½.
    values, vectors = np.linalg.eigh(kernel(x.astype(float)))
    there = values > 1e-12
    root = np.sqrt(values[there])
    # For two classes scikit-learn has one vector of weights, our difference of two: half the penalty is the same.
    strength = 1 / regularisation / (1 if len(seen) > 2 else 0.5)
    plain = fit_reference(vectors[:, there] * root, y, strength)
    expected = plain.predict_proba(kernel(query.astype(float), x.astype(float)) @ vectors[:, there] / root)
    ours = np.exp(logits[:, seen] - np.logaddexp.reduce(logits[:, seen], axis=1, keepdims=True))
    np.testing.assert_allclose(ours, expected, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)])
@given(task=tasks(), regularisation=st.sampled_from((0.003, 0.1, 1.0)))
@settings(max_examples=40)
def test_targets_are_those_of_scikit_learns_kernel_ridge(dtype: Any, task: Any, regularisation: float) -> None:
    x, query = task[0].astype(dtype), task[2].astype(dtype)
    y = np.stack([task[1], np.sin(3 * task[1]) - 5], axis=1).astype(dtype)
    present = jnp.arange(SIZE + 2) < len(x)
    found = fit_targets(padded(x, 7.0), padded(y, 50.0), present, regularisation)(jnp.asarray(query))
    # The bias is not penalised, so the kernel and the targets may be centred.
    kernel, own = gaussian(x.astype(float)), gaussian(x.astype(float))(x.astype(float))
    plain = KernelRidge(alpha=regularisation, kernel="precomputed").fit(centred(own, own), y - y.mean(axis=0))
    expected = plain.predict(centred(kernel(query.astype(float), x.astype(float)), own)) + y.mean(axis=0)
    np.testing.assert_allclose(found, expected, atol=20 * TOLERANCE[dtype])


@pytest.mark.parametrize("regularisation", [1e-30, 1e-7, 1e-5])
def test_targets_are_finite_with_hardly_any_regularisation(regularisation: float) -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(300, 2)).astype(np.float32)
    x[150:] = x[:150]
    y = np.sin(x[:, :1])
    found = fit_kernel_ridge(jnp.asarray(x), jnp.asarray(y), jnp.full(300, True), regularisation)(jnp.asarray(x))
    np.testing.assert_allclose(found, y, atol=0.01)


def test_the_last_step_is_taken_though_rounding_hides_that_the_objective_falls() -> None:
    random = np.random.default_rng(8144)  # found by the test above, among thousands of examples
    x = random.normal(size=(3, FEATURES)) * 0.01
    x[2] = x[0]
    y, present, strength = padded(np.array([1, 0, 1]), 1), jnp.arange(SIZE + 2) < 3, 0.003
    probabilities = [
        jax.nn.softmax(fit_classes(inputs, y, present, classes=2, regularisation=strength)(inputs[:3]))
        for inputs in (padded(x.astype(np.float32), 7.0), padded(x.astype(np.float32).astype(float), 7.0))
    ]
    np.testing.assert_allclose(*probabilities, atol=1e-5)


@pytest.mark.parametrize("labels", [jnp.int32, jnp.float32])
def test_of_many_shots_the_last_ones_count(monkeypatch: pytest.MonkeyPatch, labels: Any) -> None:
    monkeypatch.setattr(scratch_kernel, "MOST_SHOTS", 4)
    draw = np.random.default_rng(0)
    x, query = draw.normal(size=(SIZE, FEATURES)), jnp.asarray(draw.normal(size=(QUERIES, FEATURES)))
    y = np.array([3, 3, 0, 1, 2, 0, 1, 0, 1]).astype(labels)  # class 3 is of early shots only
    example = (jax.ShapeDtypeStruct((FEATURES,), np.float64), jax.ShapeDtypeStruct((), labels))
    learner = build("scratch-kernel", outputs=CLASSES if labels is jnp.int32 else 1, example=example)
    for count in (2, 4, 7, 9):
        padded_shots = Shots(jnp.asarray(x), jnp.asarray(y), jnp.asarray(count, jnp.int32))
        last = Shots.of(x[max(count - 4, 0) : count], y[max(count - 4, 0) : count])
        found, expected = (learner.predict((), shots, query) for shots in (padded_shots, last))
        np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_tiny_and_huge_inputs_are_like_others(scale: float) -> None:
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(SIZE, FEATURES)).astype(np.float32), jnp.arange(SIZE) % 3
    present = jnp.full(SIZE, True)
    usual = fit_kernel_logistic(jnp.asarray(x), y, present, 3, 0.01)(jnp.asarray(x))
    scaled = jnp.asarray(x * np.float32(scale))
    np.testing.assert_allclose(fit_kernel_logistic(scaled, y, present, 3, 0.01)(scaled), usual, atol=1e-3)
    far = fit_kernel_ridge(jnp.asarray(x), jnp.asarray(x), present, 0.01)(jnp.asarray(x * 1e15))
    assert np.isfinite(np.asarray(far)).all()


def test_without_datapoints_outputs_are_zero() -> None:
    x, none = jnp.ones((3, 2)), jnp.full(3, False)
    assert np.all(np.asarray(fit_kernel_ridge(x, jnp.ones((3, 1)), none, 0.1)(x)) == 0)
    assert np.all(np.asarray(fit_kernel_logistic(x, jnp.ones(3, jnp.int32), none, 2, 0.1)(x)) == 0)
