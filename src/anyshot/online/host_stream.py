"""A stream whose examples stay on the disk: what a round needs is drawn on the host and read.

The draws are those of `Stream` and `Buffer`, with the same keys, so a run gives the same numbers as one whose examples
are on the device. The order in which the rows of a task arrive is not stored but drawn again when it is needed.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jaxtyping import Array, Int, Key

from anyshot.errors import InputError
from anyshot.learners import Drawn
from anyshot.online.buffer import Buffer, Sizes
from anyshot.online.loop import RECALL, OnlineLoop, round_keys
from anyshot.online.places import DrawnPlaces, Places
from anyshot.online.protocol import OnlineProtocol
from anyshot.online.stream import check_fits, draw_order
from anyshot.shots import Episodes, Shots
from anyshot.tasks.rows import PARTS, shuffle_places
from anyshot.tasks.stored import StoredTasks


class RoundData(NamedTuple):
    """The examples of one round.

    Args:
        drawn: of the updates, with a leading axis.
        keys: of the updates.
        support: the shots of the evaluation.
        memory: datapoints of earlier tasks, for a learner that has a memory.
        test_set: the inputs and labels on which the task is tested.
        arrived: for a learner that observes, the datapoints that have just arrived.
        upcoming: for such a learner, those that arrive next.
    """

    drawn: Drawn
    keys: Key[Array, " updates"]
    support: Shots
    memory: Shots | None
    test_set: tuple[Any, Any]
    arrived: Shots | None
    upcoming: Shots | None


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
        with jax.set_mesh(None):  # these draws belong to one core, not to the devices of `share_tasks`
            order, of_train, of_test = draw_order(tasks.num_tasks, protocol, jax.device_put(key, host_device()))
            train_keys, test_keys = (jax.random.split(one, len(order)) for one in (of_train, of_test))
        self.order = np.asarray(order, np.int32)
        capacity = min(protocol.rounds * protocol.labels_per_arrival, tasks.width("train"))
        self.capacities = np.minimum(tasks.counts("train")[self.order], capacity).astype(np.int32)
        uneven = {part: tasks.counts(part)[self.order] if tasks.is_uneven(part) else None for part in PARTS}
        self.arrivals = Arrivals(
            train_keys,
            test_keys,
            jax.device_put(uneven["train"], host_device()),
            jax.device_put(uneven["test"], host_device()),
            tasks.width("train"),
            tasks.width("test"),
            capacity,
        )

    @property
    def positions(self) -> int:
        """The number of tasks in the stream."""
        return len(self.order)

    def read_round(
        self,
        loop: OnlineLoop,
        buffer: Buffer,
        before: Int[Array, ""],
        position: int,
        number: int,
        key: Key[Array, ""],
        learning: bool,
    ) -> tuple[RoundData, int]:
        """Draw and read what one round needs.

        Args:
            loop: the learner and the rules.
            buffer: what has been received, the arrival of this round included; on the host.
            before: the number of datapoints received of the current task before.
            position: of the current task.
            number: of the round in the run.
            key: of the run, on the host.
            learning: whether the round has updates; else zeros take the place of their data.

        Returns:
            the data, on the device, and the number of datapoints received of the current task.
        """
        rules = self.protocol
        places = _draw_round(loop, self.arrivals, buffer, before, np.int32(position), np.int32(number), key)
        task, tested = np.full(rules.test_size, self.order[position]), np.asarray(places.tested, np.int64)
        data = RoundData(
            self._read_drawn(places.drawn) if learning else self._draw_nothing(places.drawn),
            self._put(places.keys),
            self._read(places.support, looked_up=True),
            None if places.memory is None else self._read(places.memory),
            self._put(self.tasks.read(task, tested, "test")),
            self._read_ahead(places.arrived),
            self._read_ahead(places.upcoming),
        )
        return data, int(places.received)

    def _draw_nothing(self, places: DrawnPlaces) -> Drawn:
        if self._nothing is None:
            self._nothing = self._read_drawn(places, nothing=True)
        return self._nothing

    def _read_drawn(self, places: DrawnPlaces, nothing: bool = False) -> Drawn:
        def read(some: Places | None, looked_up: bool = False) -> Shots | None:
            return None if some is None else self._read(some, looked_up, nothing)

        train, val = read(places.train, looked_up=True), read(places.val, looked_up=True)
        return Drawn(
            episodes=None if train is None or val is None else Episodes(train, val),
            batch=read(places.batch),
            current=read(places.current),
            memory=read(places.memory),
            episode_task=None if places.train is None else self._put(places.train.position),
            memory_task=None if places.memory is None else self._put(places.memory.position),
        )

    def _read(self, places: Places, looked_up: bool = False, nothing: bool = False) -> Shots:
        """The examples at these places, or rows if `looked_up`, on the device.

        Padding is zeros and is not read; with `nothing`, all is padding.
        """
        place, count, position = np.asarray(places.place), np.asarray(places.count), np.asarray(places.position)
        if position.ndim < place.ndim:
            position = np.broadcast_to(position[..., None], place.shape)
        present = np.broadcast_to(np.arange(place.shape[-1]) < count[..., None], place.shape) & (not nothing)
        x, y = (np.zeros((*place.shape, *leaf.shape), leaf.dtype) for leaf in self.tasks.example())
        if present.any():
            rows = place[present] if looked_up else self._look_up(position[present], place[present])
            x[present], y[present] = self.tasks.read(self.order[position[present]], rows)
        return Shots(*self._put((x, y, count)))

    def _read_ahead(self, places: Places | None) -> Shots | None:
        """The examples at these places, with rows; also those behind `count`, which are there on a device as well."""
        if places is None:
            return None
        task = self.order[np.asarray(places.position)]
        rows = np.minimum(np.asarray(places.place), self.tasks.counts("train")[task] - 1)
        x, y = self.tasks.read(np.full(rows.shape, task), rows)
        return Shots(*self._put((x, y, np.asarray(places.count))))

    def _put(self, tree: Any) -> Any:
        return jax.device_put(tree, self.sharding or jax.local_devices()[0])

    def _look_up(self, position: Int[np.ndarray, " n"], place: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """The rows at these places of a draw over all tasks, in which a position may come many times."""
        several, back = np.unique(position, return_inverse=True)
        # As many positions as a power of two, so that few different sizes are compiled.
        padded = np.pad(several, (0, (1 << (len(several) - 1).bit_length()) - len(several)), mode="edge")
        return np.asarray(_shuffle(self.arrivals, padded))[back, place]


def host_device() -> Any:
    """The device that draws: a core of this host."""
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError as error:
        raise InputError(
            "stored tasks are drawn on the host, but JAX has no CPU; set JAX_PLATFORMS=cuda,cpu"
        ) from error


class Arrivals(eqx.Module):
    """The order in which the rows of a task arrive, and in which they are tested; drawn anew each time.

    Args:
        train_keys: of the task at each position.
        test_keys: the same.
        train_counts: the number of rows of the task at each position; None if all have as many.
        test_counts: the same.
        train_width: the number of rows of the largest task.
        test_width: the same.
        capacity: the number of rows of a task that can arrive.
    """

    train_keys: Key[Array, " positions"]
    test_keys: Key[Array, " positions"]
    train_counts: Int[Array, " positions"] | None
    test_counts: Int[Array, " positions"] | None
    train_width: int = eqx.field(static=True)
    test_width: int = eqx.field(static=True)
    capacity: int = eqx.field(static=True)

    def train_rows(self, position: Int[Array, ""]) -> Int[Array, " capacity"]:
        """The rows of the task in the order in which they arrive."""
        count = None if self.train_counts is None else self.train_counts[position]
        return shuffle_places(self.train_keys[position], self.train_width, count, self.capacity)

    def test_rows(self, position: Int[Array, ""], size: int) -> Int[Array, " size"]:
        """The rows on which the task is tested."""
        count = None if self.test_counts is None else self.test_counts[position]
        return shuffle_places(self.test_keys[position], self.test_width, count, size)

    def look_up(self, places: Places) -> Places:
        """Places of one task, with rows instead of places."""
        return Places(places.position, self.train_rows(places.position)[places.place], places.count)


class _RoundPlaces(NamedTuple):
    drawn: DrawnPlaces  # train and val with rows
    keys: Key[Array, " updates"]
    support: Places  # with rows
    memory: Places | None
    tested: Int[Array, " test"]
    received: Int[Array, ""]
    arrived: Places | None  # with rows
    upcoming: Places | None


@eqx.filter_jit
def _draw_round(
    loop: OnlineLoop, arrivals: Arrivals, buffer: Buffer, before: Any, position: Any, number: Any, key: Any
) -> _RoundPlaces:
    rules, learner, sizes = loop.protocol, loop.learner, Sizes(arrivals.capacity)
    of_updates, of_evaluation = round_keys(key, number)
    of_draw, of_update = jnp.unstack(jax.vmap(jax.random.split)(loop.update_keys(of_updates)), axis=1)
    memory = None
    if "memory" in learner.wants:
        memory = buffer.draw_memory(sizes, rules, position, jax.random.fold_in(of_evaluation, RECALL))
    drawn = jax.vmap(lambda one: buffer.draw_places(sizes, rules, learner.wants, position, one))(of_draw)
    if drawn.train is not None and drawn.val is not None:
        look_up = jax.vmap(jax.vmap(arrivals.look_up))
        drawn = dataclasses.replace(drawn, train=look_up(drawn.train), val=look_up(drawn.val))
    support = buffer.draw_support(sizes, rules, position, of_evaluation, learner.uses_all_labels)
    received, arrived, upcoming = buffer.received[position], None, None
    if learner.observes():
        arrived, upcoming = (
            arrivals.look_up(loop.places_ahead(arrivals.capacity, position, one)) for one in (before, received)
        )
        arrived = dataclasses.replace(arrived, count=received - before)
    return _RoundPlaces(
        drawn,
        of_update,
        arrivals.look_up(support),
        memory,
        arrivals.test_rows(position, rules.test_size),
        received,
        arrived,
        upcoming,
    )


@eqx.filter_jit
def _shuffle(arrivals: Arrivals, positions: Any) -> Int[Array, "n capacity"]:
    return jax.vmap(arrivals.train_rows)(positions)
