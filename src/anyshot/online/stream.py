"""The stream: which task comes when, which of its examples arrive in which order, and what it is tested on."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, PyTree, Shaped

from anyshot.adaptation import Shots
from anyshot.errors import InputError
from anyshot.online.protocol import Protocol
from anyshot.tasks.taskset import TaskSet

Rows = Int[Array, "..."]


class Stream(eqx.Module):
    """Everything random about the world, fixed by the seed alone, so that all methods see the same.

    Args:
        tasks: the task set, on the device.
        order: task of the set at each position of the stream.
        given: rows of the task at each position in the order they arrive.
        test: rows it is tested on.
        classes: labels there are; 0 in a regression.
    """

    tasks: TaskSet
    order: Int[Array, " positions"]
    given: Int[Array, "positions capacity ..."]
    test: Int[Array, "positions test ..."]
    classes: int = eqx.field(static=True, default=0)

    @property
    def positions(self) -> int:
        """Tasks in the stream."""
        return int(self.order.shape[0])

    @property
    def capacity(self) -> int:
        """Datapoints a task can give out in all."""
        return int(self.given.shape[1])

    def shots(self, position: Int[Array, ""], places: Int[Array, " n"], count: Int[Array, ""]) -> Shots:
        """The datapoints that arrived at these places of a task's order; the first `count` of them count."""
        return Shots(*self.tasks.look_up(self.given[position, places]), count)

    def test_set(self, position: Int[Array, ""]) -> tuple[Shaped[Array, "test ..."], PyTree[Array]]:
        """Inputs and labels a task is tested on."""
        return self.tasks.look_up(self.test[position])


def make_stream(tasks: TaskSet, protocol: Protocol, key: Key[Array, ""]) -> Stream:
    """Draw a stream; `tasks` should be on the device already.

    >>> from anyshot.tasks import load_tasks
    >>> stream = make_stream(load_tasks("sinusoid"), Protocol(tasks=5, max_steps=100, test=50), jax.random.key(0))
    >>> print(stream.positions, stream.capacity, stream.given.shape, stream.test.shape)
    5 40 (5, 40) (5, 50)
    """
    check_fits(tasks, protocol)
    positions = tasks.tasks if protocol.tasks is None else protocol.tasks
    wanted = protocol.rounds * protocol.arrive
    capacity = wanted if tasks.unit > 1 else min(wanted, tasks.given.shape[1])  # pairs are never used up
    of_order, of_given, of_test = jax.random.split(key, 3)
    order = jnp.argsort(jax.random.bits(of_order, (tasks.tasks,), jnp.uint32))[:positions]

    def rows(key: Key[Array, ""], count: int, part: str) -> Rows:
        draw = jax.vmap(lambda one, task: tasks.draw(one, task, count, part))  # type: ignore[arg-type]
        return jax.jit(draw)(jax.random.split(key, positions), order).astype(jnp.int32)

    given, test = rows(of_given, capacity, "given"), rows(of_test, protocol.test, "held")
    classes = int(tasks.y.max()) + 1 if jnp.issubdtype(tasks.y.dtype, jnp.integer) else 0
    return Stream(tasks, order.astype(jnp.int32), given, test, classes)


def check_fits(tasks: TaskSet, protocol: Protocol) -> None:
    """Raise `InputError` for rules that a task set cannot keep."""
    positions = tasks.tasks if protocol.tasks is None else protocol.tasks
    if positions > tasks.tasks:
        raise InputError(f"tasks is {positions}, but {tasks.name} has {tasks.tasks}")
    if positions <= protocol.pretrain_tasks:
        raise InputError(f"pretrain_tasks is {protocol.pretrain_tasks}, but the stream has {positions} tasks in all")
    if tasks.unit == 1 and protocol.test > tasks.held.shape[1]:
        raise InputError(f"test is {protocol.test}, but a task of {tasks.name} has {tasks.held.shape[1]} examples held")
    if tasks.given.shape[1] == 0:
        raise InputError(f"{tasks.name} has no examples that may be given out: given is empty")
    if protocol.borrow and (tasks.unit > 1 or not jnp.issubdtype(tasks.y.dtype, jnp.integer)):
        raise InputError(f"borrow completes the shots by classes, of which a task of {tasks.name} has none of its own")
    for name in ("arrive", "max_shots", "validation", "test", "batch", "memory_per_task"):
        value = getattr(protocol, name)
        if value % tasks.unit:
            raise InputError(f"{name} must be a multiple of {tasks.unit} on {tasks.name}, got {value}")
