"""N-way tasks: N random classes of many, with new labels in every episode."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from anyshot.errors import InputError
from anyshot.shots import Episodes, Shots
from anyshot.tasks.rows import gather
from anyshot.tasks.taskset import TaskSet


class ClassTasks(TaskSet):
    """Classes for N-way K-shot episodes. Each "task" of the set is one class, and all its rows are train rows.

    >>> import jax, numpy as np
    >>> rows = np.arange(12).reshape(3, 4)
    >>> classes = ClassTasks("toy", np.arange(12.0), np.repeat([0, 1, 2], 4), rows, rows[:, :0], ("a", "b", "c"))
    >>> episode = classes.episode(jax.random.key(0), ways=2, shots=1, queries=2)
    >>> print(episode.train.x.astype(int), episode.train.y, episode.val.x.astype(int), episode.val.y)
    [4 9] [0 1] [ 5 10  7  8] [0 1 0 1]
    """

    equal_sizes: ClassVar[bool] = True

    def episode(self, key: Key[Array, ""], ways: int, shots: int, queries: int, size: int | None = None) -> Episodes:
        """Draw one N-way task: examples of random classes to adapt on, and others of the same classes to validate on.

        The classes get the labels 0..N-1 at random. Examples are ordered shot by shot: the first s x ways examples are
        s of each class, for every s.

        Args:
            key: random key.
            ways: N, the number of classes.
            shots: examples of each class to adapt on.
            queries: examples of each class to validate on.
            size: examples of each class that the arrays to adapt on have room for; by default `shots`.
        """
        per_class = self.train_rows.shape[1]
        size = shots if size is None else size
        for name, value, minimum in (
            ("ways", ways, 1),
            ("shots", shots, 0),
            ("queries", queries, 0),
            ("size", size, 0),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
                raise InputError(f"{name} must be a whole number of at least {minimum}, got {value!r}")
        if ways > self.num_tasks:
            raise InputError(f"ways is {ways}, but {self.name} has {self.num_tasks} classes")
        if not shots <= size <= per_class - queries:
            raise InputError(
                f"shots ({shots}, padded to {size}) and queries ({queries}) need {size + queries} examples a class, "
                f"but a class of {self.name} has {per_class}"
            )
        of_classes, of_examples = jax.random.split(key)
        classes = jnp.argsort(jax.random.bits(of_classes, (self.num_tasks,), jnp.uint32))[:ways]
        order = jnp.argsort(jax.random.bits(of_examples, (ways, per_class), jnp.uint32), axis=1)[:, : size + queries]
        rows = jnp.take_along_axis(jnp.asarray(gather(self.train_rows, classes)), order, axis=1).T
        labels = jnp.broadcast_to(jnp.arange(ways, dtype=jnp.int32), rows.shape)

        def take(which: slice, count: int) -> Shots:
            x = jnp.asarray(gather(self.x, rows[which].reshape(-1)))
            return Shots(x, labels[which].reshape(-1), jnp.asarray(count * ways, jnp.int32))

        return Episodes(take(slice(0, size), shots), take(slice(size, None), queries))
