"""Tasks whose examples are ordered pairs of a reference and a query: are they of the same class?"""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, Shaped

from anyshot.errors import InputError
from anyshot.tasks.rows import Ints, Part, gather
from anyshot.tasks.taskset import TaskSet


class PairTasks(TaskSet):
    """Each class is a task. An example is a reference image of the task's class and a query image of any class.

    The label is 1 if both are of the same class, else 0. Pairs are sampled, not stored: a row of a draw is two rows of
    the pool. Of every two consecutive examples one is positive and one negative, in random order, so half of every even
    batch is positive. Both images of a pair come from the same part (train or test). A negative query comes from
    another task of this set: after `select`, no image of the other classes is drawn.

    >>> import jax, numpy as np
    >>> rows = np.arange(12).reshape(3, 4)
    >>> tasks = PairTasks("toy", np.arange(12.0), np.repeat([0, 1, 2], 4), rows, rows[:, :0], ("cat", "dog", "cow"))
    >>> x, y = tasks.look_up(tasks.draw(jax.random.key(0), task=1, count=6))
    >>> print(x.shape, y, set((x[y == 1] // 4).ravel().tolist()))
    (6, 2) [1 0 1 0 0 1] {1.0}
    """

    equal_sizes: ClassVar[bool] = True

    @property
    def unit(self) -> int:
        """Two: a positive and a negative pair."""
        return 2

    def draw(self, key: Key[Array, ""], task: Any, count: int, part: Part = "train") -> Int[Array, "count 2"]:
        """Draw pairs of rows (reference, query) of a task; the rows of a positive pair are different images."""
        rows = self._rows(part)
        self._check_draw(task, count)
        if self.num_tasks < 2:
            raise InputError(f"{self.name} has a single task, and negative pairs need a second one; select more tasks")
        if rows.shape[1] < 2:
            raise InputError(
                f"a pair needs 2 images of a class, but a task of {self.name} has {rows.shape[1]} {part} rows"
            )
        rows, (per_task, couples) = jnp.asarray(rows), (rows.shape[1], -(-count // 2))
        # One call for all random numbers compiles several times faster than one each. The bias of `%` is below 1e-6.
        bits = jax.random.bits(key, (6, couples), jnp.uint32)

        def below(number: int, limit: int) -> Int[Array, " couples"]:
            return (bits[number] % limit).astype(jnp.int32)

        reference, other_reference, negative = below(0, per_task), below(1, per_task), below(2, per_task)
        positive = (reference + 1 + below(3, per_task - 1)) % per_task  # any image but the reference
        other = (task + 1 + below(4, self.num_tasks - 1)) % self.num_tasks  # any class but that of the task
        same = jnp.stack([rows[task, reference], rows[task, positive]], axis=1)
        different = jnp.stack([rows[task, other_reference], rows[other, negative]], axis=1)
        swap = below(5, 2).astype(bool)[:, None, None]
        both = jnp.stack([same, different], axis=1)
        return jnp.where(swap, both[:, ::-1], both).reshape(-1, 2)[:count]

    def look_up(self, rows: Ints) -> tuple[Shaped[Any, "..."], Shaped[Any, "..."]]:
        """Pairs of images, and whether both are of one class (1) or not (0)."""
        classes = gather(self.y, rows)
        same = classes[..., 0] == classes[..., 1]
        return gather(self.x, rows), same.astype(np.int32)
