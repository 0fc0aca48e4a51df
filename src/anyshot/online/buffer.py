"""The datapoints received so far, and draws from them (paper, section 5.2, steps 1 to 4)."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, UInt32

from anyshot.learners import Drawn
from anyshot.learners.learner import Want, wanted
from anyshot.online.borrowing import fill_missing_classes
from anyshot.online.flat import draw_flat
from anyshot.online.places import DrawnPlaces, Places
from anyshot.online.protocol import OnlineProtocol
from anyshot.online.stream import HasCapacities, Stream
from anyshot.shots import Episodes, Shots

ABSENT = np.uint32(2**32 - 1)  # sorts behind every place that is present


class Sizes(NamedTuple):
    """Sizes that are fixed when draws are compiled.

    Args:
        capacity: the largest number of datapoints of a task that there is room for.
        unit: the number of datapoints that belong together: 2 for pairs, else 1.
    """

    capacity: int
    unit: int = 1

    @classmethod
    def of(cls, stream: Stream) -> Sizes:
        """The sizes of a stream."""
        return cls(stream.capacity, stream.tasks.unit)

    @property
    def units(self) -> int:
        """The largest number of units of a task."""
        return self.capacity // self.unit


class Buffer(eqx.Module):
    """How many datapoints of each task have arrived.

    Datapoints arrive in the order that the stream has fixed, so their numbers are all there is to store.

    Args:
        received: the number of datapoints received at each position of the stream.
        seen: the first `seen_count` entries are the positions that have data, in the order in which they came.
        seen_count: the number of positions that have data.
    """

    received: Int[Array, " positions"]
    seen: Int[Array, " positions"]
    seen_count: Int[Array, ""]

    @classmethod
    def empty(cls, stream: HasCapacities, protocol: OnlineProtocol) -> Buffer:
        """The buffer before the first round: all datapoints of the pretraining tasks, and none of the others."""
        positions = jnp.arange(stream.capacities.shape[0], dtype=jnp.int32)
        first = protocol.pretrain_tasks
        received = jnp.where(positions < first, stream.capacities, 0).astype(jnp.int32)
        return cls(received, positions, jnp.asarray(first, jnp.int32))

    def receive(self, position: Int[Array, ""], count: int, capacity: Int[Array, ""]) -> Buffer:
        """The buffer after `count` more datapoints of a task, or as many as are left of it."""
        before = self.received[position]
        is_new = (before == 0).astype(jnp.int32)
        seen = self.seen.at[self.seen_count].set(jnp.where(is_new == 1, position, self.seen[self.seen_count]))
        received = self.received.at[position].set(jnp.minimum(before + count, capacity))
        return Buffer(received, seen, self.seen_count + is_new)

    def draw(
        self,
        stream: Stream,
        protocol: OnlineProtocol,
        wants: frozenset[Want],
        position: Int[Array, ""],
        key: Key[Array, ""],
    ) -> Drawn:
        """Draw the data for one update.

        Args:
            stream: the stream.
            protocol: the rules.
            wants: what to draw.
            position: of the current task.
            key: draws everything random.
        """
        places = self.draw_places(Sizes.of(stream), protocol, wants, position, key)
        drawn = stream.look_up_drawn(places)
        if drawn.episodes is None or not protocol.borrow:
            return drawn
        of_episodes = jax.random.split(key, 4)[0]
        keys = jax.random.split(jax.random.fold_in(of_episodes, 1), protocol.tasks_per_update)

        def complete(position: Int[Array, ""], train: Shots, one: Key[Array, ""]) -> Shots:
            return fill_missing_classes(stream, self.received, position, train, one)

        train = jax.vmap(complete)(wanted(drawn.episode_task), drawn.episodes.train, keys)
        return dataclasses.replace(drawn, episodes=Episodes(train, drawn.episodes.val))

    def draw_places(
        self,
        sizes: Sizes,
        protocol: OnlineProtocol,
        wants: frozenset[Want],
        position: Int[Array, ""],
        key: Key[Array, ""],
    ) -> DrawnPlaces:
        """Draw the places of the data for one update. Only numbers are needed for it, no examples."""
        of_episodes, of_batch, of_current, of_memory = jax.random.split(key, 4)
        own = jnp.where(jnp.arange(self.received.shape[0]) == position, self.received, 0)
        # In pretraining nothing of the current task has arrived, and all received datapoints take its place.
        current = jnp.where(self.received[position] > 0, own, self.received)
        size, unit = protocol.batch_size, sizes.unit
        train, val = self.draw_episodes(sizes, protocol, of_episodes) if "episodes" in wants else (None, None)
        return DrawnPlaces(
            train=train,
            val=val,
            batch=draw_flat(self.received, unit, size, of_batch) if "batch" in wants else None,
            current=draw_flat(current, unit, size, of_current) if "current" in wants else None,
            memory=self.draw_memory(sizes, protocol, position, of_memory) if "memory" in wants else None,
        )

    def draw_memory(
        self, sizes: Sizes, protocol: OnlineProtocol, position: Int[Array, ""], key: Key[Array, ""]
    ) -> Places:
        """Draw from the memory, which holds the first `memory_per_task` datapoints of each earlier task."""
        earlier = jnp.arange(self.received.shape[0]) < position
        remembered = jnp.where(earlier, jnp.minimum(self.received, protocol.memory_per_task), 0)
        return draw_flat(remembered, sizes.unit, protocol.batch_size, key)

    def draw_episodes(self, sizes: Sizes, protocol: OnlineProtocol, key: Key[Array, ""]) -> tuple[Places, Places]:
        """Draw a meta-batch: tasks uniform over those seen, and K uniform over what each task allows.

        Returns:
            The shots and the validation points of each task.
        """
        # One call for all random numbers of all tasks: it compiles and runs faster than many small ones.
        shape = (protocol.tasks_per_update, 2 + sizes.units * (1 + protocol.overlap))
        bits = jax.random.bits(key, shape, jnp.uint32)

        def of_task(bits: UInt32[Array, " n"]) -> tuple[Places, Places]:
            position = self.seen[bits[0] % self.seen_count.astype(jnp.uint32)]
            return draw_episode(sizes, protocol, position, self.received[position], bits[1:])

        return jax.vmap(of_task)(bits)

    def draw_support(
        self,
        sizes: Sizes,
        protocol: OnlineProtocol,
        position: Int[Array, ""],
        key: Key[Array, ""],
        all_labels: bool = False,
    ) -> Places:
        """Draw the shots that an evaluation adapts to: n / points_per_shot of the n points received, at most M.

        With `all_labels` they are all n points, and nothing is drawn.
        """
        received = self.received[position]
        if all_labels:
            return Places(position, jnp.arange(sizes.capacity, dtype=jnp.int32), received)
        count = _whole(jnp.minimum(received // protocol.points_per_shot, protocol.max_shots), sizes.unit)
        bits = jax.random.bits(key, (sizes.units,), jnp.uint32)
        return Places(position, _padded(shuffled(received, bits, sizes.unit), protocol.max_shots), count)


def draw_episode(
    sizes: Sizes,
    protocol: OnlineProtocol,
    position: Int[Array, ""],
    received: Int[Array, ""],
    bits: UInt32[Array, " n"],
) -> tuple[Places, Places]:
    """Draw K ~ nu(j) shots of a task, and points to validate on.

    Validation points differ from the shots, unless `protocol.overlap`.

    Args:
        sizes: of the storage.
        protocol: the rules.
        position: of the task.
        received: the number of datapoints received of it.
        bits: random bits. The first number gives K, the others give the order of the datapoints.
    """
    unit, units = sizes.unit, sizes.units
    most = received if protocol.overlap else received // 2
    choices = jnp.minimum(most, protocol.max_shots) // unit + 1
    count = unit * (bits[0] % choices.astype(jnp.uint32)).astype(jnp.int32)
    order = shuffled(received, bits[1 : 1 + units], unit)
    train = _padded(order, protocol.max_shots)
    if protocol.overlap:
        val, left = _padded(shuffled(received, bits[1 + units :], unit), protocol.validation_size), received
    else:
        val = jax.lax.dynamic_slice_in_dim(
            _padded(order, order.shape[0] + protocol.validation_size), count, protocol.validation_size
        )
        left = received - count
    return (
        Places(position, train, count),
        Places(position, val, jnp.minimum(left, protocol.validation_size)),
    )


def shuffled(received: Int[Array, ""], bits: UInt32[Array, " units"], unit: int) -> Int[Array, " capacity"]:
    """The places below `received` in random order, whole units at a time. What follows them has no meaning."""
    present = jnp.arange(bits.shape[0]) < received // unit
    order = jnp.argsort(jnp.where(present, bits >> 1, ABSENT))
    return (order[:, None] * unit + jnp.arange(unit)).reshape(-1).astype(jnp.int32)


def _whole(count: Int[Array, ""], unit: int) -> Int[Array, ""]:
    return count // unit * unit


def _padded(places: Int[Array, " n"], size: int) -> Int[Array, " size"]:
    return jnp.pad(places, (0, max(0, size - places.shape[0])))[:size]
