"""The tasks for training, for validation and for the test; and episodes drawn from them."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from anyshot.errors import InputError
from anyshot.offline.protocol import OfflineProtocol
from anyshot.shots import Episodes, Shots
from anyshot.tasks import ClassTasks, TaskSet
from anyshot.tasks.randomness import permutation
from anyshot.tasks.rows import PARTS


class Split(eqx.Module):
    """The tasks of an experiment in three parts. A task is in one of them only, unless the training tasks validate.

    Args:
        train: tasks to learn from.
        validation: tasks that decide when to stop: others, or the training tasks themselves, whose test rows are then
            asked for; None if there are none.
        test: tasks that are not used until the end.
    """

    train: TaskSet
    validation: TaskSet | None
    test: TaskSet

    def __check_init__(self) -> None:
        others = None if self.validation is self.train else self.validation
        parts = {"train": self.train, "validation": others, "test": self.test}
        seen: dict[str, str] = {}
        for part, tasks in parts.items():
            for name in tasks.task_names if tasks is not None else ():
                if seen.setdefault(name, part) != part:
                    raise InputError(f"task {name!r} is in {seen[name]} and in {part}; it may be in one of them only")


def split_for(tasks: TaskSet, protocol: OfflineProtocol, seed: int | None = None) -> Split:
    """Split a task set as a protocol says. Raises `InputError` if the task set is too small, or of the wrong kind.

    Args:
        tasks: the task set.
        protocol: the rules.
        seed: of the run, which is the order of the tasks if the protocol says so.
    """
    train = tasks.train_tasks if protocol.train_tasks is None else protocol.train_tasks
    if not 0 < train < tasks.num_tasks:
        raise InputError(
            f"train_tasks must leave unseen tasks to test on: {tasks.name} has {tasks.num_tasks} tasks, got {train}"
        )
    test = tasks.num_tasks - train if protocol.test_tasks is None else protocol.test_tasks
    if train + test > tasks.num_tasks:
        raise InputError(
            f"train_tasks {train} and test_tasks {test} overlap: {tasks.name} has {tasks.num_tasks} tasks in all"
        )
    others = 0 if protocol.validation_tasks == "all" else protocol.validation_tasks
    if others >= train:
        raise InputError(f"validation_tasks must be less than the {train} tasks to train on, got {others}")
    order, learned = _order_tasks(tasks.num_tasks, protocol, seed), train - others
    trained = tasks.select(order[:learned])
    validation = trained if protocol.validation_tasks == "all" else None
    split = Split(
        trained,
        tasks.select(order[learned:train]) if others else validation,
        tasks.select(order[train : train + test]),
    )
    _check_fits(tasks, split, protocol)
    return split


def _order_tasks(count: int, protocol: OfflineProtocol, seed: int | None) -> list[int]:
    number = seed if protocol.order == "seed" else protocol.order
    if number is None:
        if protocol.order == "seed":
            raise InputError("order is 'seed', so the seed of the run is needed to split the tasks")
        return list(range(count))
    return [int(task) for task in permutation(count, number, "offline")]


def _check_fits(tasks: TaskSet, split: Split, protocol: OfflineProtocol) -> None:
    if isinstance(tasks, ClassTasks) != (protocol.ways is not None):
        need = "needs ways, such as 5" if protocol.ways is None else "has labels of its own, so ways must be None"
        raise InputError(f"ways is {protocol.ways}, but {tasks.name} {need}")
    if protocol.validation_tasks == "all" and protocol.ways is not None:
        raise InputError(f"validation_tasks is 'all', but a class of {tasks.name} has no test rows to validate on")
    parts = {"train": split.train, "validation": split.validation, "test": split.test}
    for part, some in parts.items():
        if some is not None and protocol.ways is not None and protocol.ways > some.num_tasks:
            raise InputError(
                f"ways is {protocol.ways}, but only {some.num_tasks} classes of {tasks.name} are for {part}"
            )
        if some is not None and tasks.unit == 2 and some.num_tasks < 2:
            raise InputError(f"{part} has one task of {tasks.name}, but a pair of two classes needs two")
    train_rows, test_rows = (int(tasks.counts(part).min()) for part in PARTS)
    most = protocol.test_shots[-1]
    if protocol.ways is not None:  # shots and queries are drawings of one class
        _check_enough("max_shots and queries", protocol.max_shots + protocol.queries, train_rows, tasks.name)
        _check_enough("test_shots and test_queries", most + protocol.test_queries, train_rows, tasks.name)
    elif tasks.unit == 1:  # pairs are made anew at every draw, as many as one likes
        _check_enough("max_shots and queries", protocol.max_shots + protocol.queries, train_rows, tasks.name)
        _check_enough("test_shots", most, train_rows, tasks.name)
        _check_enough("test_queries", protocol.test_queries, test_rows, tasks.name)


def _check_enough(what: str, wanted: int, there: int, name: str) -> None:
    if wanted > there:
        raise InputError(f"{what} ask for {wanted} datapoints, but a task of {name} holds {there} for that")


class Draw(eqx.Module):
    """Draws episodes of a set of tasks, for training or for a test.

    Args:
        tasks: the tasks.
        protocol: the rules.
        size: the number of shots in an episode, including padding; with ways, of each class.
        queries: the number of datapoints that validate an episode; with ways, of each class.
        from_test_rows: whether queries come from the test rows of a task; else they come from its train rows.
    """

    tasks: TaskSet
    protocol: OfflineProtocol = eqx.field(static=True)
    size: int = eqx.field(static=True)
    queries: int = eqx.field(static=True)
    from_test_rows: bool = eqx.field(static=True)

    @classmethod
    def test(cls, tasks: TaskSet, protocol: OfflineProtocol) -> Draw:
        """For a test, or for a trial on validation tasks."""
        return cls(tasks, protocol, protocol.test_shots[-1], protocol.test_queries, from_test_rows=True)

    @property
    def each(self) -> int:
        """The number of datapoints in a shot: one, or with ways one of each class."""
        return self.protocol.ways or 1

    def episode(self, key: Key[Array, ""], task: Int[Array, ""], shots: Int[Array, ""]) -> Episodes:
        """Draw an episode of a task with this number of shots. With ways, classes are drawn and `task` is not used."""
        if isinstance(self.tasks, ClassTasks):
            drawn = self.tasks.episode(key, self.each, self.size, self.queries)
            return Episodes(Shots(drawn.train.x, drawn.train.y, shots * self.each), drawn.val)
        of_shots, of_queries = jax.random.split(key)
        if self.from_test_rows:
            rows = self.tasks.draw(of_shots, task, self.size, "train")
            queries = self.tasks.draw(of_queries, task, self.queries, "test")
        else:  # one draw for both, so that queries differ from the shots
            both = self.tasks.draw(of_shots, task, self.size + self.queries, "train")
            rows, queries = both[: self.size], both[self.size :]
        return Episodes(self._shots(rows, shots), self._shots(queries, self.queries))

    def training(self, key: Key[Array, ""]) -> Episodes:
        """Draw a meta-batch: tasks uniform with replacement, K uniform over min_shots..max_shots.

        With `zero_shot_share` K is 0 with that probability, and else uniform over 1..max_shots.

        On pairs K may be odd, because a test may have one shot. The last pair is then of one class as often as of two.
        """
        protocol = self.protocol
        of_tasks, of_shots, of_episodes = jax.random.split(key, 3)
        shape = (protocol.tasks_per_update,)
        tasks = jax.random.randint(of_tasks, shape, 0, self.tasks.num_tasks)
        if protocol.zero_shot_share is None:
            shots = jax.random.randint(of_shots, shape, protocol.min_shots, protocol.max_shots + 1)
        else:
            of_number, of_zero = jax.random.split(of_shots)
            zero = jax.random.bernoulli(of_zero, protocol.zero_shot_share, shape)
            shots = jnp.where(zero, 0, jax.random.randint(of_number, shape, 1, protocol.max_shots + 1))
        return jax.vmap(self.episode)(jax.random.split(of_episodes, protocol.tasks_per_update), tasks, shots)

    def _shots(self, rows: Any, count: Any) -> Shots:
        x, y = self.tasks.look_up(rows)
        return Shots(jnp.asarray(x), jnp.asarray(y), jnp.asarray(count, jnp.int32))
