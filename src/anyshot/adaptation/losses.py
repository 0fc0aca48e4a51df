"""Losses of one datapoint, ℓ(h(x; θ), y). Any function of (output, target) to a scalar works in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer

from anyshot.errors import InputError

Loss = Callable[[Any, Any], Array]


def cross_entropy(logits: Float[Array, " classes"], label: Integer[Array, ""]) -> Float[Array, ""]:
    """Negative log probability of the true class; NaN, with a NaN gradient, if there is no such class.

    Inside a compiled function the label cannot be checked and refused. NaN keeps a wrong label from training silently.

    >>> print(f"{cross_entropy(jnp.zeros(10), jnp.array(3)):.4f}")
    2.3026
    """
    # A one-hot product rather than an index: its derivatives are dense, with no scatter in the inner loop.
    exists = (label >= 0) & (label < np.int32(logits.shape[0]))
    # NaN stands in the one-hot vector, which depends on labels alone, so that derivatives cost no more than without it.
    one_hot = jnp.where(exists, label == jnp.arange(logits.shape[0], dtype=jnp.int32), jnp.nan).astype(logits.dtype)
    return jax.nn.logsumexp(logits) - jnp.sum(logits * one_hot)


def squared_error(prediction: Float[Array, "..."], target: Float[Array, "..."]) -> Float[Array, ""]:
    """Mean of squared differences over the components of the target.

    Prediction and target must have the same shape; a single number may also come as a vector of one.

    >>> print(squared_error(jnp.array([1.0, 3.0]), jnp.array([1.0, 1.0])))
    2.0
    """
    shapes = jnp.shape(prediction), jnp.shape(target)
    if shapes[0] != shapes[1] and not jnp.size(prediction) == jnp.size(target) == 1:
        raise InputError(f"prediction and target must have one shape in squared_error, got {shapes[0]} and {shapes[1]}")
    return jnp.mean((prediction - target) ** 2)
