"""Batches of datapoints of several tasks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from anyshot.online.stream import Stream
from anyshot.shots import Shots


def flat(stream: Stream, received: Int[Array, " positions"], size: int, key: Key[Array, ""]) -> Shots:
    """Draw `size` datapoints, uniform with replacement, from the first received[p] datapoints of each position p.

    Whole units are drawn, so a batch of pairs has as many pairs of one class as of two. If nothing has been received,
    the batch is empty (count 0).
    """
    return flat_and_tasks(stream, received, size, key)[0]


def flat_and_tasks(
    stream: Stream, received: Int[Array, " positions"], size: int, key: Key[Array, ""]
) -> tuple[Shots, Int[Array, " size"]]:
    """Draw like `flat`, and return also the position of each datapoint's task."""
    rows, positions, there = flat_rows(stream, received, size, key)
    return Shots(*stream.tasks.look_up(rows), jnp.where(there, size, 0).astype(jnp.int32)), positions


def flat_rows(
    stream: Stream, received: Int[Array, " positions"], size: int, key: Key[Array, ""]
) -> tuple[Int[Array, "size ..."], Int[Array, " size"], Bool[Array, ""]]:
    """The rows that `flat` draws, the position of each, and whether anything has been received.

    If nothing has been received, the rows have no meaning.
    """
    unit = stream.tasks.unit
    units = received // unit
    ends = jnp.cumsum(units)
    total = ends[-1]
    bits = jax.random.bits(key, (-(-size // unit),), jnp.uint32)
    number = (bits % jnp.maximum(total, 1).astype(jnp.uint32)).astype(jnp.int32)
    position = jnp.minimum(jnp.searchsorted(ends, number, side="right"), received.shape[0] - 1)
    place = (number - (ends[position] - units[position]))[:, None] * unit + jnp.arange(unit)
    rows = stream.train_rows[position[:, None], place]
    return rows.reshape(-1, *rows.shape[2:])[:size], jnp.repeat(position, unit)[:size], total > 0
