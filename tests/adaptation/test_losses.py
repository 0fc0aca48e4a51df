"""The losses of one datapoint, and what becomes of labels that cannot be."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshot.adaptation import MetaObjective, Update, cross_entropy, squared_error
from anyshot.networks import MLP
from anyshot.rates import Scaled
from anyshot.shots import Episodes, Shots

pytestmark = pytest.mark.usefixtures("quick_compilation")

CLASSES = 3
LOGITS = st.lists(st.floats(-20, 20), min_size=CLASSES, max_size=CLASSES)


@given(logits=LOGITS, label=st.integers(0, CLASSES - 1))
def test_cross_entropy_and_its_derivative(logits: list[float], label: int) -> None:
    """-log p_label; its derivative is p less the unit vector of the label."""
    value, slope = jax.value_and_grad(cross_entropy)(jnp.asarray(logits), jnp.asarray(label))
    p = np.exp(logits - np.max(logits)) / np.exp(logits - np.max(logits)).sum()
    np.testing.assert_allclose(value, -np.log(p[label]), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(slope, p - np.eye(CLASSES)[label], rtol=0, atol=1e-14)


@pytest.mark.parametrize("dtype", [jnp.int8, jnp.uint8, jnp.int32, jnp.uint32, jnp.int64])
def test_labels_of_every_integer_type(dtype: Any) -> None:
    logits = jnp.linspace(0, 1, 300)
    expected = jax.nn.logsumexp(logits) - logits[7]
    np.testing.assert_allclose(cross_entropy(logits, jnp.asarray(7, dtype)), expected, rtol=1e-12)
    assert np.isnan(cross_entropy(logits[:5], jnp.asarray(7, dtype)))


@pytest.mark.parametrize("label", [-1, CLASSES, 2**31 - 1])
def test_a_class_that_does_not_exist_has_neither_loss_nor_derivative(label: int) -> None:
    value, slope = jax.jit(jax.value_and_grad(cross_entropy))(jnp.zeros(CLASSES), jnp.asarray(label))
    assert np.isnan(value)
    assert np.isnan(slope).all()


@pytest.mark.parametrize("batching", ["in turn", "together"])
@pytest.mark.parametrize("part", ["train", "val"])
def test_a_wrong_label_cannot_train_silently_in_a_compiled_function(part: str, batching: Any) -> None:
    """Values are unknown there, so the label cannot be refused; the loss and all gradients are NaN instead."""
    good = Shots(jnp.ones((2, 3, 2)), jnp.zeros((2, 3), int), jnp.array([2, 3]))
    wrong = Shots(good.x, good.y.at[1, 2].set(-1), good.count)
    behind = Shots(good.x, good.y.at[0, 2].set(-1), good.count)  # padding, which may hold anything
    objective = eqx.filter_jit(MetaObjective(Update(steps=1), batching=batching).value_and_grad)
    model = MLP((2, CLASSES), key=jax.random.key(0))

    def results(shots: Shots) -> Any:
        return objective(model, Scaled(), Episodes(shots, good) if part == "train" else Episodes(good, shots))

    assert all(np.isnan(leaf).all() for leaf in jax.tree.leaves(results(wrong)))
    for shots in (good, behind):
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(results(shots)))


def test_squared_error_takes_one_number_as_a_vector_of_one() -> None:
    assert squared_error(jnp.array([3.0]), jnp.array(1.0)) == 4.0
    assert squared_error(jnp.array(3.0), jnp.array([1.0])) == 4.0
    assert squared_error(jnp.array([[3.0, 1.0]]), jnp.array([[1.0, 1.0]])) == 2.0
