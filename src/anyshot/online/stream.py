"""The stream: the order of the tasks, the order in which their datapoints arrive, and their test data."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, PyTree, Shaped

from anyshot.errors import InputError
from anyshot.learners import Drawn
from anyshot.limits import MOST_SIZE
from anyshot.online.places import DrawnPlaces, Places
from anyshot.online.protocol import OnlineProtocol
from anyshot.shots import Episodes, Shots
from anyshot.tasks.stored import StoredTasks
from anyshot.tasks.taskset import TaskSet

Rows = Int[Array, "..."]


@runtime_checkable
class HasCapacities(Protocol):
    """A stream, on the device or on the host: it knows how many datapoints of each position there are."""

    tasks: Any
    capacities: Any


class Stream(eqx.Module):
    """What a learner will be given, fixed by the seed alone: all learners with the same seed see the same stream.

    Args:
        tasks: the task set, on the device.
        order: the number of the task at each position of the stream.
        train_rows: the rows of the task at each position, in the order in which they arrive.
        test_rows: the rows on which the task at each position is tested.
        capacities: the number of rows to learn from of the task at each position; `train_rows` behind it is padding.
        classes: the number of classes; 0 in a regression.
    """

    tasks: TaskSet
    order: Int[Array, " positions"]
    train_rows: Int[Array, "positions capacity ..."]
    test_rows: Int[Array, "positions test ..."]
    capacities: Int[Array, " positions"]
    classes: int = eqx.field(static=True, default=0)

    @property
    def positions(self) -> int:
        """The number of tasks in the stream."""
        return int(self.order.shape[0])

    @property
    def capacity(self) -> int:
        """The number of datapoints of the largest task that can arrive."""
        return int(self.train_rows.shape[1])

    def look_up(self, places: Places) -> Shots:
        """The datapoints at these places."""
        return Shots(*self.tasks.look_up(self.train_rows[places.position, places.place]), places.count)

    def look_up_drawn(self, places: DrawnPlaces) -> Drawn:
        """The datapoints of one update."""
        train, val, batch, current, memory = places.train, places.val, places.batch, places.current, places.memory
        episodes = None
        if train is not None and val is not None:
            episodes = Episodes(jax.vmap(self.look_up)(train), jax.vmap(self.look_up)(val))
        return Drawn(
            episodes=episodes,
            batch=None if batch is None else self.look_up(batch),
            current=None if current is None else self.look_up(current),
            memory=None if memory is None else self.look_up(memory),
            episode_task=None if train is None else train.position,
            memory_task=None if memory is None else memory.position,
        )

    def test_set(
        self, position: Int[Array, ""], key: Key[Array, ""] | None = None
    ) -> tuple[Shaped[Array, "test ..."], PyTree[Array]]:
        """The inputs and labels on which a task is tested.

        Args:
            position: of the task.
            key: draws as many of the task's test data anew; by default those that the stream has fixed.
        """
        if key is None:
            return self.tasks.look_up(self.test_rows[position])
        size = self.test_rows.shape[1]
        return self.tasks.look_up(self.tasks.draw(key, self.order[position], size, "test"))


def make_stream(tasks: TaskSet, protocol: OnlineProtocol, key: Key[Array, ""]) -> Stream:
    """Draw a stream.

    Args:
        tasks: the task set; on the device already, or it is copied there.
        protocol: the rules.
        key: draws the order of the tasks and of their datapoints.

    >>> from anyshot.tasks import load_tasks
    >>> rules = OnlineProtocol(num_tasks=5, max_steps=100, test_size=50)
    >>> stream = make_stream(load_tasks("sinusoid"), rules, jax.random.key(0))
    >>> print(stream.positions, stream.capacity, stream.train_rows.shape, stream.test_rows.shape)
    5 40 (5, 40) (5, 50)
    """
    check_fits(tasks, protocol)
    positions = tasks.num_tasks if protocol.num_tasks is None else protocol.num_tasks
    wanted = protocol.rounds * protocol.labels_per_arrival
    capacity = wanted if tasks.unit > 1 else min(wanted, int(tasks.counts("train").max()))  # pairs are never used up
    order, of_train, of_test = draw_order(tasks.num_tasks, protocol, key)
    draw = tasks.draw if tasks.unit > 1 else tasks.shuffle

    def rows(key: Key[Array, ""], count: int, part: str) -> Rows:
        of_tasks = jax.vmap(lambda one, task: draw(one, task, count, part))  # type: ignore[arg-type]
        return jax.jit(of_tasks)(jax.random.split(key, positions), order).astype(jnp.int32)

    train_rows, test_rows = rows(of_train, capacity, "train"), rows(of_test, protocol.test_size, "test")
    own = jnp.minimum(jnp.asarray(tasks.counts("train"))[order], capacity)
    capacities = own if tasks.unit == 1 else jnp.full_like(own, capacity)
    return Stream(tasks, order.astype(jnp.int32), train_rows, test_rows, capacities, tasks.num_classes)


def draw_order(
    num_tasks: int, protocol: OnlineProtocol, key: Key[Array, ""]
) -> tuple[Int[Array, " positions"], Key[Array, ""], Key[Array, ""]]:
    """The number of the task at each position, and the keys for the order of train and of test rows."""
    of_order, of_train, of_test = jax.random.split(key, 3)
    shuffled = jnp.argsort(jax.random.bits(of_order, (num_tasks,), jnp.uint32))
    order = shuffled if protocol.shuffle_tasks else jnp.arange(num_tasks)
    return order[: protocol.num_tasks], of_train, of_test


def check_fits(tasks: TaskSet | StoredTasks, protocol: OnlineProtocol) -> None:
    """Raise `InputError` if a task set is too small for a protocol, or of the wrong kind."""
    positions = tasks.num_tasks if protocol.num_tasks is None else protocol.num_tasks
    train, tests = tasks.width("train"), tasks.counts("test")
    if positions > tasks.num_tasks:
        raise InputError(f"num_tasks is {positions}, but {tasks.name} has {tasks.num_tasks}")
    if positions <= protocol.pretrain_tasks:
        raise InputError(f"pretrain_tasks is {protocol.pretrain_tasks}, but the stream has {positions} tasks")
    if tasks.unit == 1 and protocol.test_size > tests.min():
        owner = "a task" if tests.min() == tests.max() else f"task {tasks.task_names[int(tests.argmin())]!r}"
        raise InputError(
            f"test_size is {protocol.test_size}, but {owner} of {tasks.name} has {tests.min()} examples to test on"
        )
    if tasks.unit == 1 and protocol.fresh_test and protocol.test_size == tests.min():
        raise InputError(
            f"fresh_test is True, but a task of {tasks.name} has {tests.min()} examples to test on, so test_size "
            f"{protocol.test_size} takes all of them each time; take fewer, or hold more with data.test_rows"
        )
    if tasks.unit == 1 and protocol.max_shots > train:
        raise InputError(
            f"max_shots is {protocol.max_shots}, but a task of {tasks.name} has {train} examples to learn from"
        )
    arriving = protocol.rounds * protocol.labels_per_arrival
    if tasks.unit > 1 and arriving > MOST_SIZE:  # pairs are made as needed, so no number of examples limits them
        raise InputError(
            f"max_steps {protocol.max_steps} and labels_per_arrival {protocol.labels_per_arrival} let {arriving:,} "
            f"pairs arrive in a task of {tasks.name}; at most {MOST_SIZE:,} are possible"
        )
    if protocol.borrow and (tasks.unit > 1 or not tasks.num_classes):
        raise InputError(f"borrow is True, but a task of {tasks.name} has no classes to borrow datapoints of")
    for name in ("borrow", "fresh_test"):
        if getattr(protocol, name) and isinstance(tasks, StoredTasks):
            raise InputError(f"{name} must be False for stored tasks ({tasks.folder}); load them as a TaskSet")
    for name in ("labels_per_arrival", "max_shots", "validation_size", "test_size", "batch_size", "memory_per_task"):
        value = getattr(protocol, name)
        if value % tasks.unit:
            raise InputError(f"{name} must be a multiple of {tasks.unit} on {tasks.name}, got {value}")
