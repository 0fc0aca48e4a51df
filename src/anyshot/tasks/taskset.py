"""The examples of T tasks as arrays, and draws from them that work inside a compiled function."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Literal, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, Shaped

from anyshot.adaptation import Shots
from anyshot.errors import InputError
from anyshot.inputs import check_count, check_numeric, is_known
from anyshot.tasks.fingerprint import array_sha256, fingerprint

Part = Literal["given", "held"]
Ints = Int[Array | np.ndarray, "..."]
Tasks = TypeVar("Tasks", bound="TaskSet")


class TaskSet(eqx.Module):
    """T tasks that share one pool of examples; a task says which rows may be given out and which are held for testing.

    Draws return rows of the pool, not copies of it, so that a buffer of everything received is an array of small
    integers. `x` and `y` may be memory-mapped files, of which draws on the host read the few rows they need; call
    `on_device` before looking up examples inside `jax.jit` or `jax.vmap`, which would need all of them.
    Arrays of NumPy are checked, and hashed if no fingerprint is given.

    >>> import jax, numpy as np
    >>> pool = np.arange(6.0, dtype=np.float32)[:, None]
    >>> tasks = TaskSet("toy", pool, 10 * pool, np.array([[0, 1], [3, 4]]), np.array([[2], [5]]), ("low", "high"))
    >>> shots = tasks.shots(jax.random.key(0), task=1, count=2)
    >>> print(sorted(shots.x[:, 0].tolist()), tasks.look_up(tasks.held[1])[1])
    [3.0, 4.0] [[50.]]
    """

    name: str = eqx.field(static=True)
    x: Shaped[Array | np.ndarray, "examples ..."]
    y: Shaped[Array | np.ndarray, "examples ..."]
    given: Int[Array | np.ndarray, "tasks given"]
    held: Int[Array | np.ndarray, "tasks held"]
    task_names: tuple[str, ...] = eqx.field(static=True)
    fingerprint: str = eqx.field(static=True, default="")
    train_tasks: int = eqx.field(static=True, default=0)  # offline split: the first so many are for meta-training

    def __post_init__(self) -> None:
        arrays = {name: getattr(self, name) for name in ("x", "y", "given", "held")}
        for name, array in arrays.items():
            if not hasattr(array, "shape"):
                raise InputError(f"{name} must be an array, got {type(array).__name__}; convert it by np.asarray")
            check_numeric(name, array)
        for part in ("given", "held"):
            self._check_rows(part, arrays[part])
        if self.x.ndim == 0 or self.y.ndim == 0 or self.x.shape[0] != self.y.shape[0]:
            raise InputError(f"x and y must have one row per example, got shapes {self.x.shape} and {self.y.shape}")
        if all(isinstance(array, np.ndarray) for array in arrays.values()):
            self._check_disjoint()
            if not self.fingerprint:
                hashes = {name: array_sha256(array) for name, array in arrays.items()}
                self.fingerprint = fingerprint(hashes, self.task_names, train_tasks=self.train_tasks)

    def _check_rows(self, part: str, rows: Any) -> None:
        if rows.ndim != 2 or not jnp.issubdtype(rows.dtype, jnp.integer):
            raise InputError(
                f"{part} must hold rows of x, whole numbers of shape (tasks, {part}), got {rows.dtype} {rows.shape}"
            )
        if rows.shape[0] != self.tasks:
            raise InputError(f"{part} has rows for {rows.shape[0]} tasks, but task_names names {self.tasks}")
        if isinstance(rows, np.ndarray) and rows.size and (rows.min() < 0 or rows.max() >= len(self.x)):
            wrong = rows.min() if rows.min() < 0 else rows.max()
            raise InputError(f"{part} holds row {wrong}, but x has rows 0..{len(self.x) - 1}")

    def _check_disjoint(self) -> None:
        rows = np.sort(np.concatenate([self.given, self.held], axis=1), axis=1)
        twice = np.argwhere(rows[:, 1:] == rows[:, :-1])
        if twice.size:
            task, place = twice[0]
            raise InputError(
                f"row {rows[task, place]} is twice in given and held of task {task} ({self.task_names[task]}); "
                "an example may be given out or held for testing, once"
            )

    @property
    def unit(self) -> int:
        """Examples that belong together: whole units keep a batch balanced."""
        return 1

    @property
    def tasks(self) -> int:
        """T, the number of tasks."""
        return len(self.task_names)

    def example(self) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
        """Shape and dtype of one example's input and label: what a network must take."""
        shapes = jax.eval_shape(lambda tasks: tasks.look_up(tasks.draw(jax.random.key(0), 0, 2, "given")), self)
        x, y = (jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) for leaf in shapes)
        return x, y

    def draw(self, key: Key[Array, ""], task: Any, count: int, part: Part = "given") -> Ints:
        """Rows of `count` different examples of a task, in random order; `task` may be traced, `count` is static."""
        rows = self._part(part)
        self._check_draw(task, count, part)
        if count > rows.shape[1]:
            raise InputError(f"count is {count}, but a task of {self.name} has {rows.shape[1]} examples {part}")
        # A random key per row and the smallest `count` of them: one sort, and cheap to batch over tasks.
        order = jnp.argsort(jax.random.bits(key, (rows.shape[1],), jnp.uint32))[:count]
        return gather(gather(rows, task), order)

    def look_up(self, rows: Ints) -> tuple[Shaped[Any, "..."], Shaped[Any, "..."]]:
        """Inputs and labels of the examples that a draw returned."""
        return gather(self.x, rows), gather(self.y, rows)

    def shots(self, key: Key[Array, ""], task: Any, count: Any, part: Part = "given", size: int | None = None) -> Shots:
        """`count` examples of a task, drawn and looked up; give `size` when the count is traced.

        Inside a compiled function the task set must be on the device: see `on_device`.
        """
        check_whole("count", count)
        if size is None and not is_known(count):
            raise InputError("size must be given, as count is traced: the most that count can be")
        size = int(count) if size is None else size
        check_count("count", count, size)
        x, y = self.look_up(self.draw(key, task, size, part))
        return Shots(jnp.asarray(x), jnp.asarray(y), jnp.asarray(count, jnp.int32))

    def select(self: Tasks, tasks: Iterable[int]) -> Tasks:
        """Only these tasks, in this order. Nothing of the others is ever drawn.

        The offline split stays if those to train on come first; else there is none any more.
        """
        chosen = np.asarray(list(tasks))
        if not chosen.size:
            raise InputError("tasks is empty; select at least one")
        if chosen.ndim != 1 or not np.issubdtype(chosen.dtype, np.integer):
            raise InputError(f"tasks must be the numbers of tasks, got {chosen.dtype} {chosen.shape}")
        if chosen.min() < 0 or chosen.max() >= self.tasks:
            wrong = int(chosen.min() if chosen.min() < 0 else chosen.max())
            raise InputError(f"tasks holds {wrong}, but {self.name} has tasks 0..{self.tasks - 1}")
        if len(np.unique(chosen)) < len(chosen):
            values, counts = np.unique(chosen, return_counts=True)
            raise InputError(f"tasks holds {values[counts > 1][0]} twice; select every task once")
        names = tuple(self.task_names[task] for task in chosen)
        new = fingerprint({"of": self.fingerprint}, names, tasks=chosen.tolist())
        trains = chosen < self.train_tasks
        train = int(trains.sum()) if trains[: trains.sum()].all() else 0
        given, held = self.given[chosen], self.held[chosen]
        return dataclasses.replace(self, given=given, held=held, task_names=names, fingerprint=new, train_tasks=train)

    def offline_split(self: Tasks) -> tuple[Tasks, Tasks]:
        """The tasks for meta-training, and the unseen ones for testing."""
        if not 0 < self.train_tasks < self.tasks:
            raise InputError(
                f"{self.name} has no offline split: {self.train_tasks} of {self.tasks} tasks train; "
                "split before selecting, or select tasks of both kinds, those to train on first"
            )
        return self.select(range(self.train_tasks)), self.select(range(self.train_tasks, self.tasks))

    def on_device(self: Tasks, device: Any = None) -> Tasks:
        """The same task set with its arrays on a device, which compiled functions then use without copying."""
        return jax.device_put(self, device)

    def _part(self, part: Part) -> Ints:
        if part not in ("given", "held"):
            raise InputError(f"part must be 'given' or 'held', got {part!r}")
        return self.given if part == "given" else self.held

    def _check_draw(self, task: Any, count: int, part: Part) -> None:
        check_whole("task", task)
        if is_known(task) and not 0 <= int(task) < self.tasks:
            raise InputError(f"task is {task}, but {self.name} has tasks 0..{self.tasks - 1}")
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise InputError(f"count must be a whole number of at least 0, got {count!r}")


def check_whole(name: str, value: Any) -> None:
    """One whole number, traced or not."""
    plain = isinstance(value, int) and not isinstance(value, bool)
    if not plain and not (getattr(value, "shape", None) == () and jnp.issubdtype(value.dtype, jnp.integer)):
        raise InputError(f"{name} must be a single whole number, got {value!r}")


def gather(array: Any, rows: Any) -> Any:
    """`array[rows]`, without bringing a whole memory-mapped file into a computation that needs a few rows of it."""
    if isinstance(array, np.ndarray) and is_known(rows):
        return array[np.asarray(rows)]
    if isinstance(array, np.memmap):
        raise InputError(
            "the examples are a memory-mapped file on the host, which a compiled function cannot look up; "
            "call tasks.on_device() first"
        )
    return jnp.asarray(array)[rows]
