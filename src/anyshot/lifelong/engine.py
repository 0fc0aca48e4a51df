"""Draws, updates and predictions of a learner over stored examples, compiled for a few sizes only.

Draws are those of the online loop (`anyshot.online.Buffer`): numbers on the device say which examples are meant, and
only these are read. So memory does not grow with the number of examples, and the same events give the same learner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree

from anyshot.learners import Drawn, Learner, Problem
from anyshot.learners.learner import Want
from anyshot.online import Buffer, OnlineProtocol
from anyshot.online.buffer import Sizes
from anyshot.online.places import DrawnPlaces, Places
from anyshot.shots import Episodes, Shots

LEAST_CAPACITY, LEAST_POSITIONS = 256, 64  # sizes to begin with; they double when they no longer suffice
QUERIES = (1, 16, 256)  # inputs that are predicted at once: padded to the next of these sizes


@dataclass(frozen=True)
class Labelled:
    """The labelled examples of a task in order of arrival.

    Attributes:
        rows: where the inputs are stored.
        labels: numbers of classes, or targets.
    """

    rows: np.ndarray
    labels: np.ndarray

    @property
    def count(self) -> int:
        """The number of labels."""
        return len(self.rows)


@dataclass(frozen=True)
class AllLabelled:
    """The labelled examples of all tasks.

    Attributes:
        tasks: of each task.
        counts: the number of labels of each. It is kept, since counting anew takes milliseconds for 10,000 tasks.
        current: the number of the task that received the last label.
    """

    tasks: list[Labelled]
    counts: Int[np.ndarray, " tasks"]
    current: int

    @classmethod
    def of(cls, tasks: Sequence[Labelled], current: int) -> AllLabelled:
        """Count the labels."""
        return cls(list(tasks), np.array([task.count for task in tasks], np.int32), current)

    def replace(self, number: int, task: Labelled) -> AllLabelled:
        """The same, after a task received labels."""
        tasks, counts = list(self.tasks), self.counts.copy()
        tasks[number], counts[number] = task, task.count
        return AllLabelled(tasks, counts, number)


class Engine:
    """Runs one learner.

    Args:
        learner: the method.
        problem: what the learner knows about the tasks.
        protocol: the sizes of draws: shots, tasks and validation points of an update.
        read: gives the inputs that are stored at these rows.
        capacity: the number of labels of a task to have room for at first. A power of two.
    """

    def __init__(
        self,
        learner: Learner,
        problem: Problem,
        protocol: OnlineProtocol,
        read: Callable[[np.ndarray], np.ndarray],
        capacity: int = LEAST_CAPACITY,
    ) -> None:
        self.learner, self.problem, self.protocol, self.read = learner, problem, protocol, read
        self.capacity = capacity

    def init(self, key: Key[Array, ""]) -> PyTree[Any]:
        """The learner's state before any data has arrived."""
        return self.learner.init(key)

    def update(
        self, state: PyTree[Any], labelled: AllLabelled, key: Key[Array, ""]
    ) -> tuple[PyTree[Any], dict[str, Array]]:
        """One (meta-)update on examples of all tasks.

        Args:
            state: of the learner.
            labelled: all tasks, of which at least one has a label.
            key: draws the examples and everything random of the update.
        """
        of_draw, of_update = jax.random.split(key)
        sizes, buffer = self._sizes(labelled.counts), make_buffer(labelled.counts)
        places = _draw(sizes, self.protocol, self.learner.wants, buffer, np.int32(labelled.current), of_draw)
        return _update(self.learner, state, self._look_up_drawn(places, labelled.tasks), of_update)

    def recall(self, state: PyTree[Any], labelled: AllLabelled, key: Key[Array, ""]) -> PyTree[Any]:
        """The state with examples of tasks before the current one in its memory, if the learner has a memory."""
        if "memory" not in self.learner.wants:
            return state
        sizes, buffer = self._sizes(labelled.counts), make_buffer(labelled.counts)
        places = _draw_memory(sizes, self.protocol, buffer, np.int32(labelled.current), key)
        return self.learner.recall(state, self._look_up(places, labelled.tasks))

    def support(self, task: Labelled, key: Key[Array, ""]) -> Shots:
        """The shots that predictions adapt to: all labels of the task, or M of them drawn at random."""
        count = np.int32(task.count)
        places = _draw_support(self._sizes(count), self.protocol, self.learner.uses_all_labels, count, key)
        return self._look_up(places, [task])

    def predict(self, state: PyTree[Any], support: Shots, x: np.ndarray) -> np.ndarray:
        """The outputs for each input."""
        return map_batches(lambda some: _predict(self.learner, state, support, some), x)

    def features(self, state: PyTree[Any], x: np.ndarray) -> np.ndarray | None:
        """The learner's features of each input; None if it has none."""
        if not self.learner.has_features():
            return None
        return map_batches(lambda some: _features(self.learner, state, some), x)

    def _sizes(self, counts: Int[np.ndarray, "*tasks"] | np.int32) -> Sizes:
        most = int(np.max(counts, initial=0))
        return Sizes(self.capacity if most <= self.capacity else 1 << (most - 1).bit_length())

    def _look_up_drawn(self, places: DrawnPlaces, tasks: Sequence[Labelled]) -> Drawn:
        def look_up(some: Places | None) -> Shots | None:
            return None if some is None else self._look_up(some, tasks)

        train, val = look_up(places.train), look_up(places.val)
        return Drawn(
            episodes=None if train is None or val is None else Episodes(train, val),
            batch=look_up(places.batch),
            current=look_up(places.current),
            memory=look_up(places.memory),
            episode_task=None if places.train is None else places.train.position,
            memory_task=None if places.memory is None else places.memory.position,
        )

    def _look_up(self, places: Places, tasks: Sequence[Labelled]) -> Shots:
        """The examples at these places. Padding is zeros and is not read."""
        place, count = np.asarray(places.place), np.asarray(places.count)
        position = (
            np.broadcast_to(np.asarray(places.position)[..., None], place.shape)
            if (np.ndim(places.position) < place.ndim)
            else np.asarray(places.position)
        )
        present = np.broadcast_to(np.arange(place.shape[-1]) < count[..., None], place.shape)
        of_x, of_y = self.problem.example
        x, y = np.zeros((*place.shape, *of_x.shape), of_x.dtype), np.zeros((*place.shape, *of_y.shape), of_y.dtype)
        rows = np.zeros(place.shape, np.int64)
        for number in np.unique(position[present]):
            mine = present & (position == number)
            rows[mine], y[mine] = tasks[number].rows[place[mine]], tasks[number].labels[place[mine]]
        if present.any():
            x[present] = self.read(rows[present])
        return Shots(jnp.asarray(x), jnp.asarray(y), jnp.asarray(count, jnp.int32))


def map_batches(function: Callable[[np.ndarray], Any], x: np.ndarray) -> np.ndarray:
    """Rows for each input, by a function of several. It is called with few different sizes."""
    parts = []
    for start in range(0, max(len(x), 1), QUERIES[-1]):
        some = x[start : start + QUERIES[-1]]
        size = next(size for size in QUERIES if size >= len(some))
        padded = np.concatenate([some, np.zeros((size - len(some), *some.shape[1:]), some.dtype)])
        parts.append(np.asarray(function(padded))[: len(some)])
    return np.concatenate(parts)


def make_buffer(counts: Int[np.ndarray, " tasks"]) -> Buffer:
    """How many labels of each task have arrived, in arrays whose size is a power of two."""
    size = max(LEAST_POSITIONS, 1 << max(len(counts) - 1, 0).bit_length())
    received = np.zeros(size, np.int32)
    received[: len(counts)] = counts
    order = np.argsort(received == 0, kind="stable").astype(np.int32)
    return Buffer(jnp.asarray(received), jnp.asarray(order), jnp.asarray((received > 0).sum(), jnp.int32))


@eqx.filter_jit
def _draw(
    sizes: Sizes, protocol: OnlineProtocol, wants: frozenset[Want], buffer: Buffer, current: Any, key: Any
) -> DrawnPlaces:
    return buffer.draw_places(sizes, protocol, wants, current, key)


@eqx.filter_jit
def _draw_memory(sizes: Sizes, protocol: OnlineProtocol, buffer: Buffer, current: Any, key: Any) -> Places:
    return buffer.draw_memory(sizes, protocol, current, key)


@eqx.filter_jit
def _draw_support(sizes: Sizes, protocol: OnlineProtocol, all_labels: bool, count: Int[Any, ""], key: Any) -> Places:
    received = jnp.asarray(count)[None]
    return Buffer(received, jnp.zeros(1, jnp.int32), jnp.asarray(1, jnp.int32)).draw_support(
        sizes, protocol, jnp.asarray(0), key, all_labels
    )


@eqx.filter_jit
def _update(learner: Learner, state: PyTree[Any], drawn: Drawn, key: Any) -> Any:
    return learner.update(state, drawn, key)


@eqx.filter_jit
def _features(learner: Learner, state: PyTree[Any], x: Any) -> Any:
    return learner.features(state, x)


@eqx.filter_jit
def _predict(learner: Learner, state: PyTree[Any], support: Shots, x: Any) -> Any:
    return learner.predict(state, support, x)
