"""Losses of one datapoint, ℓ(h(x; θ), y). Any function of (output, target) to a scalar works in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Loss = Callable[[Any, Any], Array]


def cross_entropy(logits: Float[Array, " classes"], label: Int[Array, ""]) -> Float[Array, ""]:
    """Negative log probability of the true class.

    >>> print(f"{cross_entropy(jnp.zeros(10), jnp.array(3)):.4f}")
    2.3026
    """
    # A one-hot product rather than an index: its derivatives are dense, with no scatter in the inner loop.
    at_label = jnp.sum(logits * jax.nn.one_hot(label, logits.shape[0], dtype=logits.dtype))
    return jax.nn.logsumexp(logits) - at_label


def squared_error(prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, ""]:
    """Mean of squared differences over the components of the target.

    >>> print(squared_error(jnp.array([1.0, 3.0]), jnp.array([1.0, 1.0])))
    2.0
    """
    return jnp.mean((prediction - target) ** 2)
