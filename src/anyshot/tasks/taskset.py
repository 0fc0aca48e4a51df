"""The examples of T tasks as arrays, and random draws from them that work inside a compiled function."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, Shaped

from anyshot.errors import InputError
from anyshot.inputs import check_count, is_known
from anyshot.shots import Shots
from anyshot.tasks.fingerprint import hash_arrays, hash_lines
from anyshot.tasks.own_arrays import join_arrays, split_rows
from anyshot.tasks.taskset_checks import check_content, check_integer, check_numbers, check_structure

Part = Literal["train", "test"]
Ints = Int[Array | np.ndarray, "..."]
Tasks = TypeVar("Tasks", bound="TaskSet")


@dataclasses.dataclass(frozen=True)
class Origin:
    """How to make a task set again: `load_tasks(origin.name, seed=origin.seed, **dict(origin.settings))`.

    Attributes:
        name: of the task set in the catalogue.
        seed: of the task set.
        settings: names and values of the settings that are not the default, sorted by name.
    """

    name: str
    seed: int = 0
    settings: tuple[tuple[str, int], ...] = ()


class TaskSet(eqx.Module):
    """T tasks that share one pool of examples.

    Each task has rows of the pool to train on (`train_rows`) and others to test on (`test_rows`). Draws return row
    numbers, not copies of examples. `look_up` returns the examples of these rows.

    `x` and `y` may be memory-mapped files; on the host, draws read only the rows they need. Call `on_device` before you
    look up examples inside `jax.jit` or `jax.vmap`. Integer labels are classes, counted from 0, and booleans become the
    classes 0 and 1; float labels are targets of a regression.

    Args:
        name: of the task set.
        x: inputs, one row per example.
        y: labels, one row per example.
        train_rows: rows of `x` and `y` to train on, one line per task.
        test_rows: rows to test on, one line per task; none of them is in `train_rows` of the same task.
        task_names: one name per task.
        fingerprint: identifies the content. By default the arrays are checked for NaN and the like, then hashed; if it
            is given, the values in `x` and `y` are not read.
        train_tasks: offline split: the first `train_tasks` tasks are for meta-training; 0 if there is no split.
        origin: how `load_tasks` makes this set again; None for a set of your own.

    >>> import jax, numpy as np
    >>> pool = np.arange(6.0, dtype=np.float32)[:, None]
    >>> tasks = TaskSet("toy", pool, 10 * pool, np.array([[0, 1], [3, 4]]), np.array([[2], [5]]), ("low", "high"))
    >>> shots = tasks.shots(jax.random.key(0), task=1, count=2)
    >>> print(sorted(shots.x[:, 0].tolist()), tasks.look_up(tasks.test_rows[1])[1])
    [3.0, 4.0] [[50.]]
    """

    name: str = eqx.field(static=True)
    x: Shaped[Array | np.ndarray, "examples ..."]
    y: Shaped[Array | np.ndarray, "examples ..."]
    train_rows: Int[Array | np.ndarray, "tasks train"]
    test_rows: Int[Array | np.ndarray, "tasks test"]
    task_names: tuple[str, ...] = eqx.field(static=True)
    fingerprint: str = eqx.field(static=True, default="")
    train_tasks: int = eqx.field(static=True, default=0)
    origin: Origin | None = eqx.field(static=True, default=None)

    def __post_init__(self) -> None:
        if isinstance(self.task_names, list):
            self.task_names = tuple(self.task_names)
        if getattr(self.y, "dtype", None) == np.bool_:
            self.y = self.y.astype(np.int32)
        arrays = {name: getattr(self, name) for name in ("x", "y", "train_rows", "test_rows")}
        check_structure(self.name, self.task_names, arrays)
        if not self.fingerprint and all(is_known(array) for array in arrays.values()):
            on_host = {name: np.asarray(array) for name, array in arrays.items()}
            check_content(self.task_names, on_host, self.train_tasks)
            self.fingerprint = hash_arrays(on_host, self.task_names, self.train_tasks)

    @classmethod
    def from_arrays(
        cls: type[Tasks],
        tasks: Mapping[str, tuple[Any, Any]] | Sequence[tuple[Any, Any]],
        *,
        test_size: int | float = 0.25,
        name: str = "own tasks",
        seed: int = 0,
        train_tasks: int = 0,
    ) -> Tasks:
        """Make a task set from one pair of arrays (x, y) per task. All tasks must have the same number of rows.

        Args:
            tasks: the pairs by the name of the task, or a sequence of pairs, whose tasks are called "task 0" and so on.
            test_size: rows of each task that are for testing: a number of rows (int), or a share of them (float below
                1), rounded to whole rows.
            name: of the task set.
            seed: decides which rows of a task are for testing.
            train_tasks: offline split: the first `train_tasks` tasks are for meta-training; 0 if there is no split.

        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(20, 5))
        >>> tasks = TaskSet.from_arrays({"sign": (x, x[:, 0] > 0), "sum": (x, x.sum(axis=1) > 0)}, test_size=8)
        >>> print(tasks.task_names, tasks.x.shape, tasks.train_rows.shape, tasks.test_rows.shape, tasks.y[:4])
        ('sign', 'sum') (40, 5) (2, 12) (2, 8) [1 1 0 0]
        """
        x, y, task_names = join_arrays(tasks)
        train_rows, test_rows = split_rows(task_names, len(x) // len(task_names), test_size, seed)
        return cls(name, x, y, train_rows, test_rows, task_names, train_tasks=train_tasks)

    @property
    def unit(self) -> int:
        """How many consecutive examples belong together; a batch of whole units is balanced."""
        return 1

    @property
    def num_tasks(self) -> int:
        """T, the number of tasks."""
        return len(self.task_names)

    def example(self) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
        """Shape and dtype of the input and of the label of one example."""
        shapes = jax.eval_shape(lambda tasks: tasks.look_up(tasks.draw(jax.random.key(0), 0, 1, "train")), self)
        x, y = (jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) for leaf in shapes)
        return x, y

    def draw(self, key: Key[Array, ""], task: Any, count: int, part: Part = "train") -> Ints:
        """Draw the rows of `count` different examples of a task, in random order.

        Args:
            key: random key.
            task: number of the task; may be traced.
            count: how many examples; a Python int.
            part: "train" or "test".
        """
        rows = self._rows(part)
        self._check_draw(task, count)
        if count > rows.shape[1]:
            raise InputError(f"count is {count}, but a task of {self.name} has {rows.shape[1]} {part} rows")
        # A random number per row, and the rows of the smallest `count` numbers: one sort, cheap to batch over tasks.
        order = jnp.argsort(jax.random.bits(key, (rows.shape[1],), jnp.uint32))[:count]
        return gather(gather(rows, task), order)

    def look_up(self, rows: Ints) -> tuple[Shaped[Any, "..."], Shaped[Any, "..."]]:
        """Inputs and labels of the examples in these rows."""
        return gather(self.x, rows), gather(self.y, rows)

    def shots(self, key: Key[Array, ""], task: Any, count: Any, part: Part = "train", size: int | None = None) -> Shots:
        """Draw `count` examples of a task and look them up.

        Inside a compiled function the task set must be on the device; see `on_device`.

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
        x, y = self.look_up(self.draw(key, task, size, part))
        return Shots(jnp.asarray(x), jnp.asarray(y), jnp.asarray(count, jnp.int32))

    def select(self: Tasks, tasks: Iterable[int]) -> Tasks:
        """The set of these tasks only, in this order. Draws from it return nothing of the other tasks.

        It keeps the offline split if the tasks to train on come first; otherwise it has none. It has no `origin`.
        """
        chosen = np.asarray(list(tasks))
        check_numbers(self.name, chosen, self.num_tasks)
        names = tuple(self.task_names[task] for task in chosen)
        trains = chosen < self.train_tasks
        return dataclasses.replace(
            self,
            train_rows=self.train_rows[chosen],
            test_rows=self.test_rows[chosen],
            task_names=names,
            fingerprint=hash_lines({"of": self.fingerprint}, names, tasks=chosen.tolist()),
            train_tasks=int(trains.sum()) if trains[: trains.sum()].all() else 0,
            origin=None,
        )

    def offline_split(self: Tasks) -> tuple[Tasks, Tasks]:
        """The tasks for meta-training, and the unseen tasks for testing."""
        if not 0 < self.train_tasks < self.num_tasks:
            raise InputError(
                f"{self.name} has no offline split: {self.train_tasks} of {self.num_tasks} tasks train; "
                "split before selecting, or select tasks of both kinds, those to train on first"
            )
        return self.select(range(self.train_tasks)), self.select(range(self.train_tasks, self.num_tasks))

    def on_device(self: Tasks, device: Any = None) -> Tasks:
        """The same task set with its arrays on a device, where compiled functions use them without copying."""
        return jax.device_put(self, device)

    def _rows(self, part: Part) -> Ints:
        if part not in ("train", "test"):
            raise InputError(f"part must be 'train' or 'test', got {part!r}")
        return self.train_rows if part == "train" else self.test_rows

    def _check_draw(self, task: Any, count: int) -> None:
        check_integer("task", task)
        if is_known(task) and not 0 <= int(task) < self.num_tasks:
            raise InputError(f"task is {task}, but {self.name} has tasks 0..{self.num_tasks - 1}")
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise InputError(f"count must be a whole number of at least 0, got {count!r}")


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
