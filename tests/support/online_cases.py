"""Learners on tiny tasks, run by the compiled loop and by the plain one."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from anyshot.adaptation import cross_entropy, squared_error
from anyshot.learners import NetworkLearner
from anyshot.networks import MLP
from anyshot.online import OnlineLoop, OnlineProtocol, OnlineState, Record, Stream, make_stream
from anyshot.tasks import TaskSet
from tests.support.learners import build
from tests.support.plain_online import algorithm, methods
from tests.support.plain_online.world import World, make_world
from tests.support.tiny_tasks import classification, pairs, regression

WORLD, START, RUN = jax.random.key(1), jax.random.key(2), jax.random.key(3)
DISPATCH = 8
TRACES: Counter[str] = Counter()  # of the compiled function, by case
COMPILATIONS: Counter[str] = Counter()  # of anything at all


def _count_compilation(event: str, _seconds: float, **_: Any) -> None:
    if event == "/jax/core/compile/backend_compile_duration":
        COMPILATIONS["all"] += 1


jax.monitoring.register_event_duration_secs_listener(_count_compilation)


def small_mlp(key: Any, outputs: int) -> MLP:
    return MLP((4, 6, outputs), key=key)


@dataclasses.dataclass(frozen=True)
class Case:
    """A learner on a task set under rules; `tolerance` bounds the difference from the plain loop."""

    learner: str
    tasks: Callable[[], TaskSet]
    rules: tuple[tuple[str, Any], ...] = ()
    hyperparameters: tuple[tuple[str, Any], ...] = ()
    tolerance: float = 1e-9

    def __str__(self) -> str:
        changes = "".join(f"-{name}={value}" for name, value in self.rules + self.hyperparameters)
        return f"{self.learner}-{self.tasks.__name__}{changes}"

    @property
    def is_classification(self) -> bool:
        return self.tasks is not regression

    def protocol(self) -> OnlineProtocol:
        # In a regression there is less to learn from (5 examples) than would arrive in three rounds (6).
        rules: dict[str, Any] = {"labels_per_arrival": 2, "steps_per_arrival": 1, "max_steps": 3, "points_per_shot": 2}
        rules |= {"max_shots": 3, "validation_size": 3, "tasks_per_update": 2, "batch_size": 6}
        rules |= {"memory_per_task": 3, "test_size": 6, "threshold": 0.6}
        if self.tasks is regression:
            rules |= {"advance": False, "measure": "loss", "threshold": 7.0, "overlap": True, "points_per_shot": 1}
        elif self.tasks is pairs:
            rules |= {"max_shots": 2, "validation_size": 2, "points_per_shot": 1}
        return OnlineProtocol(**rules | dict(self.rules))

    def make_learner(self, network: Any = small_mlp) -> NetworkLearner:
        numbers = {"inner_steps": 2, "inner_rate": 0.3, "inner_clip": 1.0, "meta_rate": 0.03, "meta_clip": 0.5}
        numbers |= {"embedding": 5, "memory": 4, "batching": "together"}
        return build(
            self.learner,
            network=network,
            outputs={classification: 3, regression: 2, pairs: 2}[self.tasks],
            example=self.tasks().example(),
            max_shots=self.protocol().max_shots,
            **numbers | dict(self.hyperparameters),
        )

    def loop(self, network: Any = small_mlp) -> OnlineLoop:
        loss = cross_entropy if self.is_classification else squared_error
        return OnlineLoop(self.make_learner(network), self.protocol(), loss, self.is_classification, dispatch=DISPATCH)


@functools.cache
def _world(tasks: Callable[[], TaskSet], labels: int, rounds: int, test_size: int) -> tuple[Stream, World]:
    protocol = OnlineProtocol(
        labels_per_arrival=labels, steps_per_arrival=1, max_steps=rounds, test_size=test_size, max_shots=2
    )
    return make_stream(tasks(), protocol, WORLD), make_world(tasks(), protocol, WORLD)


def world_of(case: Case) -> tuple[Stream, World]:
    """The stream, and the same in plain Python; shared by all cases with as many arrivals."""
    protocol = case.protocol()
    return _world(case.tasks, protocol.labels_per_arrival, protocol.rounds, protocol.test_size)


def stream_of(case: Case) -> Stream:
    return world_of(case)[0]


def counted(rounds: int) -> jax.Array:
    return jnp.asarray(rounds, jnp.int32)


@eqx.filter_jit
def started(loop: OnlineLoop, stream: Stream, key: Any) -> OnlineState:
    return loop.start(stream, key)


@eqx.filter_jit
def run(loop: OnlineLoop, stream: Stream, state: OnlineState, key: Any, rounds: Any, name: str = "") -> Any:
    TRACES[name] += 1
    return loop.run(stream, state, key, rounds)


def ran(
    loop: OnlineLoop, stream: Stream, state: OnlineState, rounds: list[int], name: str = ""
) -> tuple[OnlineState, Record]:
    """Dispatch after dispatch until the stream ends or a number is not finite.

    `rounds` are the rounds of each dispatch; the last number serves for all later ones.
    """
    parts, number = [], 0
    while bool(state.finite) and int(state.position) < stream.positions:
        asked = rounds[min(number, len(rounds) - 1)]
        state, records, count = run(loop, stream, state, RUN, counted(asked), name)
        assert int(count) <= min(asked, DISPATCH)
        assert records.loss.shape == (loop.dispatch,)
        parts.append(jax.tree.map(lambda leaf, n=int(count): np.asarray(leaf)[:n], records))
        number += 1
        assert number < 100, "the stream does not end"
    return state, jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


@functools.cache
def compiled(case: Case) -> tuple[OnlineState, Record, int]:
    """The final state, the records, and compilations after the first dispatch; dispatches have different sizes."""
    loop, stream = case.loop(), stream_of(case)
    state = started(loop, stream, START)
    run(loop, stream, state, RUN, counted(1), str(case))
    before = COMPILATIONS["all"]
    state, records = ran(loop, stream, state, [1, 3, 2, 5], str(case))
    return state, records, COMPILATIONS["all"] - before


@functools.cache
def plain(case: Case) -> algorithm.Run:
    """The same by the plain loop."""
    _, world = world_of(case)
    method = methods.make_method(case.make_learner(), START)
    return algorithm.run(world, case.protocol(), method, case.is_classification, RUN)


def assert_same_bits(one: Any, other: Any) -> None:
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert a.tobytes() == b.tobytes()
