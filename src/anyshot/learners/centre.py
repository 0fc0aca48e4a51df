"""Datapoints less their mean."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def centre(
    x: Float[Array, "n columns"], present: Bool[Array, " n"]
) -> tuple[Float[Array, " columns"], Float[Array, "n columns"]]:
    """The mean of the rows that are present, and the rows less their mean; padding is 0.

    Where all rows have the same number, the mean is that number, without rounding.

    >>> mean, centred = centre(jnp.array([[1.0, 0.1], [3.0, 0.1], [9.0, 9.0]]), jnp.arange(3) < 2)
    >>> print(mean, centred.tolist())
    [2.  0.1] [[-1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]
    """
    x = jnp.where(present[:, None], x, 0)
    first = x[jnp.argmax(present)]
    differs = jnp.any((x != first) & present[:, None], axis=0)
    mean = jnp.where(differs, jnp.sum(x, axis=0) / jnp.maximum(jnp.sum(present), 1), first)
    return mean, jnp.where(present[:, None], x - mean, 0)
