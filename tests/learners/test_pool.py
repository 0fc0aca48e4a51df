"""Logarithmic pooling against its formula, on all classes and on a grid of targets; its rule and its bound."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import norm

from anyshot.learners.pool import (
    COUNTS,
    RATE,
    STEEPEST,
    UNIFORM_SHARE,
    Errors,
    Powers,
    class_loss,
    pool_classes,
    pool_targets,
    target_loss,
)

EXPERTS, CLASSES, LABELS = 3, 4, 12  # fixed sizes, so that one program serves all examples
FIRST = np.array([0.4, 0.2, 0.7])
logits = arrays(float, (LABELS, EXPERTS, CLASSES), elements=st.floats(-20, 20))
classes = arrays(int, LABELS, elements=st.integers(0, CLASSES - 1))
update = jax.jit(lambda powers, given, present: powers.update(class_loss, given, present))


@jax.jit
def losses_of_one_after_another(powers: Powers, labels: Any) -> Any:
    """The loss of each label, with the powers learned from those before it."""

    def predict_then_learn(powers: Powers, label: Any) -> tuple[Powers, Any]:
        loss = class_loss(powers.at(powers.count), label)
        return powers.update(class_loss, jax.tree.map(lambda leaf: leaf[None], label), jnp.full(1, True)), loss

    return jax.lax.scan(predict_then_learn, powers, labels)[1]


def plain_pool(powers: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """The product of powers, divided by its sum over all classes."""
    smooth = (1 - UNIFORM_SHARE) * probabilities + UNIFORM_SHARE / CLASSES
    found = np.array([np.prod([smooth[i, k] ** powers[i] for i in range(EXPERTS)]) for k in range(CLASSES)])
    return found / found.sum()


def softmax(z: np.ndarray) -> np.ndarray:
    return np.asarray(jax.nn.softmax(jnp.asarray(z)))


def plain_rule(given: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """v for each number of labels after all labels, v before each, and g of each by finite differences."""
    powers = {kind: FIRST.copy() for kind in range(COUNTS)}
    before, slopes = [], []
    for t in range(len(y)):
        kind = [t >= 2**k - 1 for k in range(COUNTS)].count(True) - 1  # 0; 1, 2; 3 to 6; ...
        v = powers[kind]
        g = np.zeros(EXPERTS)
        for i in range(EXPERTS):
            step = np.where(np.arange(EXPERTS) == i, 1e-6, 0)
            up, down = (-np.log(plain_pool(v + sign * step, softmax(given[t]))[y[t]]) for sign in (1, -1))
            g[i] = (up - down) / 2e-6
        before.append(v)
        slopes.append(g)
        powers[kind] = v * np.exp(-RATE * g)
    return np.array([powers[kind] for kind in range(COUNTS)]), before, slopes


@given(logits, classes, st.integers(0, LABELS), st.integers(0, LABELS))
def test_powers_follow_the_rule_however_labels_arrive(given: np.ndarray, y: np.ndarray, first: int, n: int) -> None:
    powers, rows = Powers.start(jnp.asarray(FIRST)), np.arange(LABELS)
    for present in (rows < min(first, n), (rows >= min(first, n)) & (rows < n)):
        spoilt = np.where(present[:, None, None], np.log(softmax(given)), np.nan)  # what padding holds must not matter
        powers = update(powers, (jnp.asarray(spoilt), jnp.asarray(y)), jnp.asarray(present))
    assert int(powers.count) == n
    expected, _, _ = plain_rule(given[:n], y[:n])
    np.testing.assert_allclose(np.exp(powers.log), expected, atol=1e-6)
    for labels in range(n, LABELS):
        kind = [labels >= 2**k - 1 for k in range(COUNTS)].count(True) - 1
        np.testing.assert_allclose(powers.at(jnp.asarray(labels)), expected[kind], atol=1e-6)
    assert int(powers.end_task().count) == 0


@given(logits, classes, arrays(float, EXPERTS, elements=st.floats(0, 3)))
def test_the_bound_holds_for_all_powers_in_hindsight(given: np.ndarray, y: np.ndarray, u: np.ndarray) -> None:
    _, before, slopes = plain_rule(given, y)
    labels = (jnp.asarray(np.log([softmax(each) for each in given])), jnp.asarray(y))
    ours = losses_of_one_after_another(Powers.start(jnp.asarray(FIRST)), labels)
    of_u = [-np.log(plain_pool(u, softmax(given[t]))[y[t]]) for t in range(LABELS)]
    for kind in range(3):
        mine = [t for t in range(LABELS) if 2**kind - 1 <= t < 2 ** (kind + 1) - 1]
        distance = np.sum(np.where(u > 0, u * np.log(np.maximum(u, 1e-300) / FIRST), 0) - u + FIRST) / RATE
        wander = sum(np.sum(before[t] * (np.exp(-RATE * g) - 1 + RATE * g)) for t, g in enumerate(slopes) if t in mine)
        assert sum(ours[t] - of_u[t] for t in mine) <= distance + wander / RATE + 1e-5


@given(arrays(float, (EXPERTS, CLASSES), elements=st.floats(-20, 20)), arrays(float, EXPERTS, elements=st.floats(0, 3)))
def test_classes_have_the_product_of_powers(given: np.ndarray, powers: np.ndarray) -> None:
    found = np.exp(pool_classes(jnp.asarray(powers), jnp.log(softmax(given))))
    np.testing.assert_allclose(found, plain_pool(powers, softmax(given)), atol=1e-12)


def test_targets_have_the_density_of_the_product_of_gaussians() -> None:
    powers, variances = np.array([0.4, 1.5, 0.1]), np.array([0.5, 2.0, 0.1])
    predicted, y = np.array([[0.3], [-1.0], [4.0]]), np.array([0.7])
    grid = np.linspace(-20, 20, 400_001)
    experts = zip(predicted, variances, powers, strict=True)
    product = np.prod([norm.pdf(grid, at[0], np.sqrt(variance)) ** v for at, variance, v in experts], axis=0)
    density = product / (product.sum() * (grid[1] - grid[0]))
    mean, precision = pool_targets(jnp.asarray(powers), jnp.asarray(variances), jnp.asarray(predicted))
    np.testing.assert_allclose(mean[0], np.sum(grid * density) / density.sum(), atol=1e-6)
    np.testing.assert_allclose(1 / precision, np.sum((grid - float(mean[0])) ** 2 * density) / density.sum(), atol=1e-6)
    label: Any = tuple(map(jnp.asarray, (predicted, variances, y)))
    np.testing.assert_allclose(
        target_loss(jnp.asarray(powers), label), -np.log(np.interp(y[0], grid, density)), atol=1e-6
    )


def test_an_enormous_error_moves_the_powers_by_a_bounded_step() -> None:
    label = (jnp.full((1, EXPERTS, 1), 1e6), jnp.ones((1, EXPERTS)), jnp.zeros((1, 1)))
    powers = Powers.start(jnp.asarray(FIRST)).update(target_loss, label, jnp.full(1, True))
    np.testing.assert_allclose(powers.log[0], np.log(FIRST) - RATE * STEEPEST, rtol=1e-6)


@pytest.mark.parametrize("n", [0, 3, 5])
def test_variances_are_mean_squared_errors_so_far(n: int) -> None:
    differences = np.random.default_rng(0).normal(size=(5, EXPERTS, 2))
    present = np.arange(5) < n
    spoilt = np.where(present[:, None, None], differences, np.nan)
    variances, errors = Errors.start(EXPERTS).update(jnp.asarray(spoilt), jnp.asarray(present))
    for t in range(n):
        expected = (1 + np.sum(differences[:t] ** 2, axis=(0, 2))) / (1 + 2 * t)
        np.testing.assert_allclose(variances[t], expected)
    np.testing.assert_allclose(errors.variances, (1 + np.sum(differences[:n] ** 2, axis=(0, 2))) / (1 + 2 * n))
