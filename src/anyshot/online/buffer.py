"""Everything received so far, and draws from it (paper, section 5.2, steps 1 to 4)."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, UInt32

from anyshot.adaptation import Episodes, Shots
from anyshot.learners import Drawn
from anyshot.learners.learner import Want
from anyshot.online.borrowing import completed
from anyshot.online.flat import flat, flat_and_tasks
from anyshot.online.protocol import Protocol
from anyshot.online.stream import Stream

ABSENT = np.uint32(2**32 - 1)  # behind every place that is present


class Buffer(eqx.Module):
    """How much of each task has arrived. What arrived is the beginning of the stream's order, so counts say it all.

    Args:
        received: datapoints received at each position of the stream.
        seen: positions that have data, in the order they came; the first `seen_count` entries.
        seen_count: how many.
    """

    received: Int[Array, " positions"]
    seen: Int[Array, " positions"]
    seen_count: Int[Array, ""]

    @classmethod
    def empty(cls, stream: Stream, protocol: Protocol) -> Buffer:
        """Nothing received but the pretraining tasks, which are there with all they have."""
        positions = jnp.arange(stream.positions, dtype=jnp.int32)
        first = protocol.pretrain_tasks
        received = jnp.where(positions < first, stream.capacity, 0).astype(jnp.int32)
        return cls(received, positions, jnp.asarray(first, jnp.int32))

    def arrived(self, position: Int[Array, ""], count: int, capacity: int) -> Buffer:
        """The buffer after `count` more datapoints of a task, or as many as the task has left."""
        before = self.received[position]
        is_new = (before == 0).astype(jnp.int32)
        seen = self.seen.at[self.seen_count].set(jnp.where(is_new == 1, position, self.seen[self.seen_count]))
        received = self.received.at[position].set(jnp.minimum(before + count, capacity))
        return Buffer(received, seen, self.seen_count + is_new)

    def draw(
        self, stream: Stream, protocol: Protocol, wants: frozenset[Want], position: Int[Array, ""], key: Key[Array, ""]
    ) -> Drawn:
        """What a learner wants for one update; `position` is the current task's."""
        of_episodes, of_batch, of_current, of_memory = jax.random.split(key, 4)
        own = jnp.where(jnp.arange(stream.positions) == position, self.received, 0)
        # In pretraining the current task has nothing yet, and those there are take its place.
        current = jnp.where(self.received[position] > 0, own, self.received)
        size = protocol.batch
        none = (None, None)
        episodes, episode_task = self.episodes(stream, protocol, of_episodes) if "episodes" in wants else none
        memory, memory_task = self.memory(stream, protocol, position, of_memory) if "memory" in wants else none
        return Drawn(
            episodes=episodes,
            batch=flat(stream, self.received, size, of_batch) if "batch" in wants else None,
            current=flat(stream, current, size, of_current) if "current" in wants else None,
            memory=memory,
            episode_task=episode_task,
            memory_task=memory_task,
        )

    def memory(
        self, stream: Stream, protocol: Protocol, position: Int[Array, ""], key: Key[Array, ""]
    ) -> tuple[Shots, Int[Array, " batch"]]:
        """Datapoints of earlier tasks, of which the first `memory_per_task` each are remembered; and their tasks."""
        earlier = jnp.arange(stream.positions) < position
        remembered = jnp.where(earlier, jnp.minimum(self.received, protocol.memory_per_task), 0)
        return flat_and_tasks(stream, remembered, protocol.batch, key)

    def episodes(
        self, stream: Stream, protocol: Protocol, key: Key[Array, ""]
    ) -> tuple[Episodes, Int[Array, " tasks"]]:
        """Tasks uniform over those seen, K uniform over what they allow, shots and validation points; and which."""
        units = stream.capacity // stream.tasks.unit
        # One call for all random numbers of all tasks: it compiles and runs faster than many small ones.
        bits = jax.random.bits(key, (protocol.tasks_per_update, 2 + units * (1 + protocol.overlap)), jnp.uint32)

        def of_task(bits: UInt32[Array, " n"]) -> tuple[Episodes, Int[Array, ""]]:
            position = self.seen[bits[0] % self.seen_count.astype(jnp.uint32)]
            return episode(stream, protocol, position, self.received[position], bits[1:]), position

        episodes, positions = jax.vmap(of_task)(bits)
        if not protocol.borrow:
            return episodes, positions
        keys = jax.random.split(jax.random.fold_in(key, 1), protocol.tasks_per_update)

        def complete(position: Int[Array, ""], train: Shots, one: Key[Array, ""]) -> Shots:
            return completed(stream, self.received, position, train, one)

        return Episodes(jax.vmap(complete)(positions, episodes.train, keys), episodes.val), positions

    def support(self, stream: Stream, protocol: Protocol, position: Int[Array, ""], key: Key[Array, ""]) -> Shots:
        """The shots an evaluation adapts on: n / points_per_shot of the n points received, at most M."""
        received = self.received[position]
        count = _whole(jnp.minimum(received // protocol.points_per_shot, protocol.max_shots), stream.tasks.unit)
        bits = jax.random.bits(key, (stream.capacity // stream.tasks.unit,), jnp.uint32)
        places = _padded(shuffled(received, bits, stream.tasks.unit), protocol.max_shots)
        return stream.shots(position, places, count)


def episode(
    stream: Stream, protocol: Protocol, position: Int[Array, ""], received: Int[Array, ""], bits: UInt32[Array, " n"]
) -> Episodes:
    """K ~ nu(j) shots of a task, and others (or, overlapping, any) to validate on.

    bits[0] draws K, the rest the order.
    """
    unit = stream.tasks.unit
    units = stream.capacity // unit
    most = received if protocol.overlap else received // 2
    choices = jnp.minimum(most, protocol.max_shots) // unit + 1
    count = unit * (bits[0] % choices.astype(jnp.uint32)).astype(jnp.int32)
    order = shuffled(received, bits[1 : 1 + units], unit)
    train = _padded(order, protocol.max_shots)
    if protocol.overlap:
        val, left = _padded(shuffled(received, bits[1 + units :], unit), protocol.validation), received
    else:
        val = jax.lax.dynamic_slice_in_dim(
            _padded(order, order.shape[0] + protocol.validation), count, protocol.validation
        )
        left = received - count
    return Episodes(
        stream.shots(position, train, count), stream.shots(position, val, jnp.minimum(left, protocol.validation))
    )


def shuffled(received: Int[Array, ""], bits: UInt32[Array, " units"], unit: int) -> Int[Array, " capacity"]:
    """The places below `received` in random order, whole units at a time; the places behind them are of no meaning."""
    present = jnp.arange(bits.shape[0]) < received // unit
    order = jnp.argsort(jnp.where(present, bits >> 1, ABSENT))
    return (order[:, None] * unit + jnp.arange(unit)).reshape(-1).astype(jnp.int32)


def _whole(count: Int[Array, ""], unit: int) -> Int[Array, ""]:
    return count // unit * unit


def _padded(places: Int[Array, " n"], size: int) -> Int[Array, " size"]:
    return jnp.pad(places, (0, max(0, size - places.shape[0])))[:size]
