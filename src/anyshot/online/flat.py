"""Datapoints of several tasks, drawn uniformly from everything received."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from anyshot.online.places import Places


def draw_flat(received: Int[Array, " positions"], unit: int, size: int, key: Key[Array, ""]) -> Places:
    """Draw `size` datapoints, uniform with replacement, from the first received[p] datapoints of each position p.

    Whole units are drawn, so a batch of pairs has as many pairs of one class as of two. If nothing has been received,
    the batch is empty (count 0), and its places have no meaning.

    Args:
        received: the number of datapoints received at each position.
        unit: the number of datapoints that belong together.
        size: of the batch.
        key: draws the datapoints.
    """
    units = received // unit
    ends = jnp.cumsum(units)
    total = ends[-1]
    bits = jax.random.bits(key, (-(-size // unit),), jnp.uint32)
    number = (bits % jnp.maximum(total, 1).astype(jnp.uint32)).astype(jnp.int32)
    position = jnp.minimum(jnp.searchsorted(ends, number, side="right"), received.shape[0] - 1)
    place = (number - (ends[position] - units[position]))[:, None] * unit + jnp.arange(unit)
    count = jnp.where(total > 0, size, 0).astype(jnp.int32)
    return Places(jnp.repeat(position, unit)[:size], place.reshape(-1)[:size].astype(jnp.int32), count)
