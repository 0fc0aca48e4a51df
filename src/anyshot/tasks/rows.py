"""The rows of T tasks in one pool of examples, and random draws of them that work inside a compiled function."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, Shaped

from anyshot.errors import InputError
from anyshot.inputs import check_count, is_known
from anyshot.shots import Shots
from anyshot.tasks.taskset_checks import check_integer

Part = Literal["train", "test"]
PARTS: tuple[Part, Part] = ("train", "test")
Ints = Int[Array | np.ndarray, "..."]
Rows = TypeVar("Rows", bound="TaskRows")

PADDING = np.uint32(2**32 - 1)  # sorts behind every row that is not padding


class TaskRows(eqx.Module):
    """What `TaskSet` draws from; the fields are described there."""

    name: str = eqx.field(static=True)
    x: Shaped[Array | np.ndarray, "examples ..."]
    y: Shaped[Array | np.ndarray, "examples ..."]
    train_rows: Int[Array | np.ndarray, "tasks train"]
    test_rows: Int[Array | np.ndarray, "tasks test"]
    task_names: tuple[str, ...] = eqx.field(static=True)
    fingerprint: str = eqx.field(static=True, default="")
    train_tasks: int = eqx.field(static=True, default=0)
    train_counts: tuple[int, ...] | None = eqx.field(static=True, default=None)
    test_counts: tuple[int, ...] | None = eqx.field(static=True, default=None)

    @property
    def unit(self) -> int:
        """How many consecutive examples belong together; a batch of whole units is balanced."""
        return 1

    @property
    def num_tasks(self) -> int:
        """T, the number of tasks."""
        return len(self.task_names)

    @property
    def num_classes(self) -> int:
        """The largest class plus one; 0 if labels are targets of a regression."""
        return int(self.y.max()) + 1 if jnp.issubdtype(self.y.dtype, jnp.integer) else 0

    @property
    def device_bytes(self) -> int:
        """The bytes that a run needs on the device for the tasks."""
        return int(sum(array.nbytes for array in (self.x, self.y, self.train_rows, self.test_rows)))

    def width(self, part: Part = "train") -> int:
        """The number of rows of the largest task."""
        return int(self._rows(part).shape[1])

    def example(self) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
        """Shape and dtype of the input and of the label of one example."""
        shapes = jax.eval_shape(lambda tasks: tasks.look_up(tasks.draw(jax.random.key(0), 0, 1, "train")), self)
        x, y = (jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) for leaf in shapes)
        return x, y

    def counts(self, part: Part = "train") -> Int[np.ndarray, " tasks"]:
        """The number of rows of each task, without padding."""
        uneven = self._uneven(part)
        counts = (self._rows(part).shape[1],) * self.num_tasks if uneven is None else uneven
        return np.array(counts, np.int32)

    def rows_of(self, task: int, part: Part = "train") -> Int[np.ndarray, " n"]:
        """The rows of a task, without padding."""
        return np.asarray(self._rows(part))[task, : self.counts(part)[task]]

    def draw(self, key: Key[Array, ""], task: Any, count: int, part: Part = "train") -> Ints:
        """Draw the rows of `count` different examples of a task, in random order.

        Args:
            key: random key.
            task: number of the task; may be traced. Then every task must have `count` rows.
            count: how many examples; a Python int.
            part: "train" or "test".
        """
        counts = self.counts(part)
        self._check_draw(task, count)
        there = int(counts[int(task)] if is_known(task) else counts.min())
        if count > there:
            of_task = f"task {int(task)}" if is_known(task) else "the smallest task"
            owner = "a task" if counts.min() == counts.max() else of_task
            raise InputError(f"count is {count}, but {owner} of {self.name} has {there} {part} rows")
        return self.shuffle(key, task, count, part)

    def shuffle(self, key: Key[Array, ""], task: Any, size: int, part: Part = "train") -> Ints:
        """The first `size` rows of a task in random order. Those behind the number of its rows are padding."""
        rows, uneven = self._rows(part), self._uneven(part)
        count = None if uneven is None else jnp.asarray(uneven, jnp.int32)[task]
        return gather(gather(rows, task), shuffle_places(key, rows.shape[1], count, size))

    def look_up(self, rows: Ints) -> tuple[Shaped[Any, "..."], Shaped[Any, "..."]]:
        """Inputs and labels of the examples in these rows."""
        return gather(self.x, rows), gather(self.y, rows)

    def shots(self, key: Key[Array, ""], task: Any, count: Any, part: Part = "train", size: int | None = None) -> Shots:
        """Draw `count` examples of a task and look them up.

        Inside a compiled function the task set must be on the device; see `on_device`. If `task` or `count` is traced
        and the task has fewer examples than `count`, all of them are returned.

        Args:
            key: random key.
            task: number of the task; may be traced.
            count: how many examples; may be traced if `size` is given.
            part: "train" or "test".
            size: rows of the returned arrays, those behind `count` are padding; by default `count`.
        """
        check_integer("count", count)
        if size is None and not is_known(count):
            raise InputError("size must be given when count is traced: the largest value that count can have")
        size = int(count) if size is None else size
        check_count("count", count, size)
        uneven = self._uneven(part)
        if uneven is None:
            rows = self.draw(key, task, size, part)
        else:
            self._check_draw(task, size)
            if size > max(uneven):
                raise InputError(f"size is {size}, but the largest task of {self.name} has {max(uneven)} {part} rows")
            if is_known(task):
                check_count("count", count, uneven[int(task)])
            rows, count = self.shuffle(key, task, size, part), jnp.minimum(count, jnp.asarray(uneven)[task])
        x, y = self.look_up(rows)
        return Shots(jnp.asarray(x), jnp.asarray(y), jnp.asarray(count, jnp.int32))

    def on_device(self: Rows, device: Any = None) -> Rows:
        """The same task set with its arrays on a device, where compiled functions use them without copying."""
        return jax.device_put(self, device)

    def _rows(self, part: Part) -> Ints:
        if part not in ("train", "test"):
            raise InputError(f"part must be 'train' or 'test', got {part!r}")
        return self.train_rows if part == "train" else self.test_rows

    def _uneven(self, part: Part) -> tuple[int, ...] | None:
        """The number of rows of each task; None if all have as many as there are columns."""
        return self.train_counts if part == "train" else self.test_counts

    def _check_draw(self, task: Any, count: int) -> None:
        check_integer("task", task)
        if is_known(task) and not 0 <= int(task) < self.num_tasks:
            raise InputError(f"task is {task}, but {self.name} has tasks 0..{self.num_tasks - 1}")
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise InputError(f"count must be a whole number of at least 0, got {count!r}")


def shuffle_places(key: Key[Array, ""], width: int, count: Any, size: int) -> Int[Array, " size"]:
    """The first `size` of the places 0..width-1 in random order, those below `count` before the others.

    Args:
        key: random key.
        width: the number of places.
        count: how many are not padding; None for all.
        size: how many to return, at most `width`.
    """
    # A random number per place, and the places of the smallest `size` numbers: one sort, cheap to batch over tasks.
    bits = jax.random.bits(key, (width,), jnp.uint32)
    if count is not None:
        bits = jnp.where(jnp.arange(width) < count, bits >> 1, PADDING)
    return jnp.argsort(bits)[:size]


def gather(array: Any, rows: Any) -> Any:
    """`array[rows]`; refuses to copy a whole memory-mapped file into a compiled function that needs a few rows."""
    if isinstance(array, np.ndarray) and is_known(rows):
        return array[np.asarray(rows)]
    if isinstance(array, np.memmap):
        raise InputError(
            "the examples are a memory-mapped file on the host, which a compiled function cannot read; "
            "call tasks.on_device() first"
        )
    return jnp.asarray(array)[rows]
