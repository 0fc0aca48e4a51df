"""Mutually exclusive tasks: N of many classes, numbered anew in every episode."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from anyshot.adaptation import Episodes, Shots
from anyshot.errors import InputError
from anyshot.tasks.taskset import TaskSet, gather


class ClassTasks(TaskSet):
    """Classes to make N-way K-shot episodes of: here each "task" of the set is a class, and all its rows are `given`.

    >>> import jax, numpy as np
    >>> rows = np.arange(12).reshape(3, 4)
    >>> classes = ClassTasks("toy", np.arange(12.0), np.repeat([0, 1, 2], 4), rows, rows[:, :0], ("a", "b", "c"))
    >>> episode = classes.episode(jax.random.key(0), ways=2, shots=1, queries=2)
    >>> print(episode.train.x.astype(int), episode.train.y, episode.val.x.astype(int), episode.val.y)
    [4 9] [0 1] [ 5 10  7  8] [0 1 0 1]
    """

    def episode(self, key: Key[Array, ""], ways: int, shots: int, queries: int, size: int | None = None) -> Episodes:
        """One N-way task: `shots` drawings of each of `ways` classes to adapt on, `queries` others of each to validate.

        Labels 0..N-1 are dealt out at random. Examples are ordered shot by shot, so that the first s * ways are s per
        class, whatever s; `size` pads the shots to adapt on to s = size per class.
        """
        per_class = self.given.shape[1]
        size = shots if size is None else size
        for name, value, least in (("ways", ways, 1), ("shots", shots, 0), ("queries", queries, 0), ("size", size, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")
        if ways > self.tasks:
            raise InputError(f"ways is {ways}, but {self.name} has {self.tasks} classes here")
        if not shots <= size <= per_class - queries:
            raise InputError(
                f"shots ({shots}, padded to {size}) and queries ({queries}) need {size + queries} examples a class, "
                f"but a class of {self.name} has {per_class}"
            )
        of_classes, of_examples = jax.random.split(key)
        classes = jnp.argsort(jax.random.bits(of_classes, (self.tasks,), jnp.uint32))[:ways]
        order = jnp.argsort(jax.random.bits(of_examples, (ways, per_class), jnp.uint32), axis=1)[:, : size + queries]
        rows = jnp.take_along_axis(jnp.asarray(gather(self.given, classes)), order, axis=1).T
        labels = jnp.broadcast_to(jnp.arange(ways, dtype=jnp.int32), rows.shape)

        def taken(which: slice, count: int) -> Shots:
            x = jnp.asarray(gather(self.x, rows[which].reshape(-1)))
            return Shots(x, labels[which].reshape(-1), jnp.asarray(count * ways, jnp.int32))

        return Episodes(taken(slice(0, size), shots), taken(slice(size, None), queries))
