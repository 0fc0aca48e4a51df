"""Datapoints of several tasks in one flat batch."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from anyshot.adaptation import Shots
from anyshot.online.stream import Stream


def flat(stream: Stream, received: Int[Array, " positions"], size: int, key: Key[Array, ""]) -> Shots:
    """`size` datapoints uniform, with replacement, over the first received[p] of every position p; none if all are 0.

    Whole units are drawn, so that a batch of pairs is balanced.
    """
    return flat_and_tasks(stream, received, size, key)[0]


def flat_and_tasks(
    stream: Stream, received: Int[Array, " positions"], size: int, key: Key[Array, ""]
) -> tuple[Shots, Int[Array, " size"]]:
    """The same, and the position of each datapoint's task."""
    rows, positions, there = flat_rows(stream, received, size, key)
    return Shots(*stream.tasks.look_up(rows), jnp.where(there, size, 0).astype(jnp.int32)), positions


def flat_rows(
    stream: Stream, received: Int[Array, " positions"], size: int, key: Key[Array, ""]
) -> tuple[Int[Array, "size ..."], Int[Array, " size"], Bool[Array, ""]]:
    """The rows of `flat`, the position of each, and whether there are any; else they are of no meaning."""
    unit = stream.tasks.unit
    units = received // unit
    ends = jnp.cumsum(units)
    total = ends[-1]
    bits = jax.random.bits(key, (-(-size // unit),), jnp.uint32)
    number = (bits % jnp.maximum(total, 1).astype(jnp.uint32)).astype(jnp.int32)
    position = jnp.minimum(jnp.searchsorted(ends, number, side="right"), received.shape[0] - 1)
    place = (number - (ends[position] - units[position]))[:, None] * unit + jnp.arange(unit)
    rows = stream.given[position[:, None], place]
    return rows.reshape(-1, *rows.shape[2:])[:size], jnp.repeat(position, unit)[:size], total > 0
