"""Which tasks train, which decide when to stop, and which are unseen; and episodes drawn from them."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from anyshot.adaptation import Episodes, Shots
from anyshot.errors import InputError
from anyshot.offline.plan import Plan
from anyshot.tasks import ClassTasks, TaskSet
from anyshot.tasks.randomness import permutation


class Split(eqx.Module):
    """Three sets of tasks, no task in two of them.

    Args:
        train: to learn from.
        validation: to decide when to stop; None: nothing decides.
        test: unseen until the end.
    """

    train: TaskSet
    validation: TaskSet | None
    test: TaskSet

    def __check_init__(self) -> None:
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        seen: dict[str, str] = {}
        for part, tasks in parts.items():
            for name in tasks.task_names if tasks is not None else ():
                if seen.setdefault(name, part) != part:
                    raise InputError(f"task {name!r} is in {seen[name]} and in {part}; a task may be in one of them")


def split_for(tasks: TaskSet, plan: Plan) -> Split:
    """The first tasks train, the last few of those validate, and the tasks behind them are the unseen ones.

    What cannot be done is refused here, before any work.
    """
    train = tasks.train_tasks if plan.train_tasks is None else plan.train_tasks
    if not 0 < train < tasks.tasks:
        raise InputError(
            f"train_tasks must leave unseen tasks to test on: {tasks.name} has {tasks.tasks} tasks, got {train}"
        )
    test = tasks.tasks - train if plan.test_tasks is None else plan.test_tasks
    if train + test > tasks.tasks:
        raise InputError(
            f"train_tasks {train} and test_tasks {test} overlap: {tasks.name} has {tasks.tasks} tasks in all"
        )
    if plan.validation_tasks >= train:
        raise InputError(
            f"validation_tasks must be less than the {train} tasks to train on, got {plan.validation_tasks}"
        )
    learned = train - plan.validation_tasks
    order = range(tasks.tasks) if plan.order is None else permutation(tasks.tasks, plan.order, "offline").tolist()
    split = Split(
        tasks.select(order[:learned]),
        tasks.select(order[learned:train]) if plan.validation_tasks else None,
        tasks.select(order[train : train + test]),
    )
    _check_fits(tasks, split, plan)
    return split


def _check_fits(tasks: TaskSet, split: Split, plan: Plan) -> None:
    if isinstance(tasks, ClassTasks) != (plan.ways is not None):
        need = "needs ways, such as 5" if plan.ways is None else "has labels of its own, so ways must be None"
        raise InputError(f"ways is {plan.ways}, but {tasks.name} {need}")
    parts = {"train": split.train, "validation": split.validation, "test": split.test}
    for part, some in parts.items():
        if some is not None and plan.ways is not None and plan.ways > some.tasks:
            raise InputError(f"ways is {plan.ways}, but only {some.tasks} classes of {tasks.name} are for {part}")
        if some is not None and tasks.unit == 2 and some.tasks < 2:
            raise InputError(f"{part} has one task of {tasks.name}, but a pair of two classes needs two")
    given, held, most = tasks.given.shape[1], tasks.held.shape[1], plan.test_shots[-1]
    if plan.ways is not None:  # shots and queries are drawings of one class
        _check_enough("max_shots and queries", plan.max_shots + plan.queries, given, tasks.name)
        _check_enough("test_shots and test_queries", most + plan.test_queries, given, tasks.name)
    elif tasks.unit == 1:  # pairs are made anew at every draw, as many as one likes
        _check_enough("max_shots and queries", plan.max_shots + plan.queries, given, tasks.name)
        _check_enough("test_shots", most, given, tasks.name)
        _check_enough("test_queries", plan.test_queries, held, tasks.name)


def _check_enough(what: str, wanted: int, there: int, name: str) -> None:
    if wanted > there:
        raise InputError(f"{what} ask for {wanted} datapoints, but a task of {name} holds {there} for that")


class Draw(eqx.Module):
    """Episodes of a set of tasks, for training or for a test.

    Args:
        tasks: drawn from.
        plan: the rules.
        size: shots of an episode, padding included (for each class, if there are ways).
        queries: datapoints that validate it.
        held: whether queries come from the examples that are held for tests.
    """

    tasks: TaskSet
    plan: Plan = eqx.field(static=True)
    size: int = eqx.field(static=True)
    queries: int = eqx.field(static=True)
    held: bool = eqx.field(static=True)

    @classmethod
    def test(cls, tasks: TaskSet, plan: Plan) -> Draw:
        """Episodes of a test, or of a trial."""
        return cls(tasks, plan, plan.test_shots[-1], plan.test_queries, held=True)

    @property
    def each(self) -> int:
        """Datapoints of a shot: one, or one of each class."""
        return self.plan.ways or 1

    def episode(self, key: Key[Array, ""], task: Int[Array, ""], shots: Int[Array, ""]) -> Episodes:
        """One episode of a task (with ways: of any classes) with so many shots."""
        if isinstance(self.tasks, ClassTasks):
            drawn = self.tasks.episode(key, self.each, self.size, self.queries)
            return Episodes(Shots(drawn.train.x, drawn.train.y, shots * self.each), drawn.val)
        of_shots, of_queries = jax.random.split(key)
        if self.held:
            rows = self.tasks.draw(of_shots, task, self.size, "given")
            queries = self.tasks.draw(of_queries, task, self.queries, "held")
        else:  # different datapoints: one that was adapted on would measure nothing
            both = self.tasks.draw(of_shots, task, self.size + self.queries, "given")
            rows, queries = both[: self.size], both[self.size :]
        return Episodes(self._shots(rows, shots), self._shots(queries, self.queries))

    def training(self, key: Key[Array, ""]) -> Episodes:
        """A meta-batch: tasks uniform, with replacement; K uniform from the least to the most.

        K may be odd on pairs, too, of which the last is then as often one of one class as of two: one shot is tested.
        """
        plan = self.plan
        of_tasks, of_shots, of_episodes = jax.random.split(key, 3)
        shape = (plan.tasks_per_update,)
        tasks = jax.random.randint(of_tasks, shape, 0, self.tasks.tasks)
        shots = jax.random.randint(of_shots, shape, plan.least_shots, plan.max_shots + 1)
        return jax.vmap(self.episode)(jax.random.split(of_episodes, plan.tasks_per_update), tasks, shots)

    def _shots(self, rows: Any, count: Any) -> Shots:
        x, y = self.tasks.look_up(rows)
        return Shots(jnp.asarray(x), jnp.asarray(y), jnp.asarray(count, jnp.int32))
