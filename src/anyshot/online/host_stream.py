"""A stream whose examples stay on the disk: what a round needs is drawn on the host and read.

The draws are those of `Stream` and `Buffer`, with the same keys, so a run gives the same numbers as one whose examples
are on the device. The order in which the rows of a task arrive is not stored but drawn again when it is needed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jaxtyping import Array, Int, Key

from anyshot.learners import Drawn
from anyshot.online.buffer import Buffer, Sizes
from anyshot.online.loop import RECALL, OnlineLoop, round_keys
from anyshot.online.places import DrawnPlaces, Places
from anyshot.online.protocol import OnlineProtocol
from anyshot.online.stream import check_fits, draw_order
from anyshot.shots import Episodes, Shots
from anyshot.tasks.rows import Part, shuffle_places
from anyshot.tasks.stored import StoredTasks


class RoundData(NamedTuple):
    """The examples of one round.

    Args:
        drawn: of the updates, with a leading axis.
        keys: of the updates.
        support: the shots of the evaluation.
        memory: datapoints of earlier tasks, for a learner that has a memory.
        test_set: the inputs and labels on which the task is tested.
    """

    drawn: Drawn
    keys: Key[Array, " updates"]
    support: Shots
    memory: Shots | None
    test_set: tuple[Any, Any]


class HostStream:
    """What `Stream` is, over stored tasks.

    Args:
        tasks: the stored tasks.
        protocol: the rules.
        key: draws the order of the tasks and of their datapoints.
        sharding: of the data on the devices; None for the default device.
    """

    def __init__(
        self, tasks: StoredTasks, protocol: OnlineProtocol, key: Key[Array, ""], sharding: NamedSharding | None = None
    ) -> None:
        check_fits(tasks, protocol)
        self.tasks, self.protocol, self.sharding = tasks, protocol, sharding
        self._nothing: Drawn | None = None  # zeros in place of the data of updates, for rounds without updates
        order, of_train, of_test = draw_order(tasks.num_tasks, protocol, jax.device_put(key, host_device()))
        self.order = np.asarray(order, np.int32)
        self.keys = {"train": jax.random.split(of_train, len(order)), "test": jax.random.split(of_test, len(order))}
        self.capacity = min(protocol.rounds * protocol.labels_per_arrival, tasks.width("train"))
        self.capacities = np.minimum(tasks.counts("train")[self.order], self.capacity).astype(np.int32)

    @property
    def positions(self) -> int:
        """The number of tasks in the stream."""
        return len(self.order)

    def read_round(
        self, loop: OnlineLoop, buffer: Buffer, position: int, number: int, key: Key[Array, ""], learning: bool
    ) -> tuple[RoundData, int]:
        """Draw and read what one round needs.

        Args:
            loop: the learner and the rules.
            buffer: what has been received, the arrival of this round included; on the host.
            position: of the current task.
            number: of the round in the run.
            key: of the run, on the host.
            learning: whether the round has updates; else zeros take the place of their data.

        Returns:
            the data, on the device, and the number of datapoints received of the current task.
        """
        rules = self.protocol
        places = _draw_round(loop, Sizes(self.capacity), buffer, np.int32(position), np.int32(number), key)
        task = np.full(rules.test_size, self.order[position])
        tested = self._rows("test", np.array([position]), rules.test_size)[0]
        data = RoundData(
            self._read_drawn(places.drawn) if learning else self._draw_nothing(places.drawn),
            self._put(places.keys),
            self._read(places.support),
            None if places.memory is None else self._read(places.memory),
            self._put(self.tasks.read(task, tested, "test")),
        )
        return data, int(places.received)

    def _draw_nothing(self, places: DrawnPlaces) -> Drawn:
        if self._nothing is None:
            self._nothing = self._read_drawn(places, nothing=True)
        return self._nothing

    def _read_drawn(self, places: DrawnPlaces, nothing: bool = False) -> Drawn:
        def read(some: Places | None) -> Shots | None:
            return None if some is None else self._read(some, nothing)

        train, val = read(places.train), read(places.val)
        return Drawn(
            episodes=None if train is None or val is None else Episodes(train, val),
            batch=read(places.batch),
            current=read(places.current),
            memory=read(places.memory),
            episode_task=None if places.train is None else self._put(places.train.position),
            memory_task=None if places.memory is None else self._put(places.memory.position),
        )

    def _read(self, places: Places, nothing: bool = False) -> Shots:
        """The examples at these places, on the device. Padding is zeros and not read; so is all, with `nothing`."""
        place, count, position = np.asarray(places.place), np.asarray(places.count), np.asarray(places.position)
        if position.ndim < place.ndim:
            position = np.broadcast_to(position[..., None], place.shape)
        present = np.broadcast_to(np.arange(place.shape[-1]) < count[..., None], place.shape) & (not nothing)
        x, y = (np.zeros((*place.shape, *leaf.shape), leaf.dtype) for leaf in self.tasks.example())
        if present.any():
            several, back = np.unique(position[present], return_inverse=True)
            rows = self._rows("train", several, self.capacity)[back, place[present]]
            x[present], y[present] = self.tasks.read(self.order[position[present]], rows)
        return Shots(*self._put((x, y, count)))

    def _put(self, tree: Any) -> Any:
        return jax.device_put(tree, self.sharding or jax.local_devices()[0])

    def _rows(self, part: Part, positions: Int[np.ndarray, " n"], size: int) -> Int[np.ndarray, "n size"]:
        """The rows of the tasks at these positions in the order in which they arrive, or are tested."""
        # As many positions as a power of two, so that few different sizes are compiled.
        padded = np.pad(positions, (0, (1 << (len(positions) - 1).bit_length()) - len(positions)), mode="edge")
        counts = self.tasks.counts(part)[self.order[padded]] if self.tasks.is_uneven(part) else None
        rows = _shuffle_rows(self.keys[part], padded, counts, self.tasks.width(part), size)
        return np.asarray(rows)[: len(positions)].astype(np.int64)


def host_device() -> Any:
    """The device that draws: a core of this host."""
    return jax.local_devices(backend="cpu")[0]


class _RoundPlaces(NamedTuple):
    drawn: DrawnPlaces
    keys: Key[Array, " updates"]
    support: Places
    memory: Places | None
    received: Int[Array, ""]


@eqx.filter_jit
def _draw_round(loop: OnlineLoop, sizes: Sizes, buffer: Buffer, position: Any, number: Any, key: Any) -> _RoundPlaces:
    rules, learner = loop.protocol, loop.learner
    of_updates, of_evaluation = round_keys(key, number)
    of_draw, of_update = jnp.unstack(jax.vmap(jax.random.split)(loop.update_keys(of_updates)), axis=1)
    memory = None
    if "memory" in learner.wants:
        memory = buffer.draw_memory(sizes, rules, position, jax.random.fold_in(of_evaluation, RECALL))
    return _RoundPlaces(
        jax.vmap(lambda one: buffer.draw_places(sizes, rules, learner.wants, position, one))(of_draw),
        of_update,
        buffer.draw_support(sizes, rules, position, of_evaluation, learner.uses_all_labels),
        memory,
        buffer.received[position],
    )


@eqx.filter_jit
def _shuffle_rows(keys: Any, positions: Any, counts: Any, width: int, size: int) -> Int[Array, "n size"]:
    def shuffle(key: Any, count: Any) -> Int[Array, " size"]:
        return shuffle_places(key, width, count, size)

    return jax.vmap(shuffle, in_axes=(0, None if counts is None else 0))(keys[positions], counts)
