"""The loop with learners of any kind: thresholds, and numbers that are not finite."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anyshot.adaptation import cross_entropy
from anyshot.learners import Drawn, Learner
from anyshot.online import OnlineLoop, OnlineProtocol, make_stream
from anyshot.tasks import TaskSet
from tests.support.online_cases import (
    DISPATCH,
    RUN,
    START,
    WORLD,
    Case,
    assert_same_bits,
    counted,
    ran,
    run,
    started,
    stream_of,
)
from tests.support.refusals import assert_refused
from tests.support.tiny_tasks import classification, regression

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]

CASE = Case("toe", classification)


class Poisoned(Learner):
    """Its weight and its output are the given numbers from the fifth update on."""

    weight: Any
    output: Any

    @property
    def wants(self) -> Any:
        return frozenset({"batch"})

    def init(self, key: Any) -> Any:
        return {"updates": jnp.zeros((), jnp.int32), "weight": jnp.ones(())}

    def update(self, state: Any, drawn: Drawn, key: Any) -> Any:
        updates = state["updates"] + 1
        return {"updates": updates, "weight": jnp.where(updates < 5, 1.0, self.weight)}, {"loss": jnp.zeros(())}

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return jnp.full((query.shape[0], 3), jnp.where(state["updates"] < 5, 1.0, self.output))


@pytest.mark.parametrize(("weight", "output"), [(1.0, np.nan), (np.nan, 1.0), (np.inf, 1.0)])
def test_a_number_that_is_not_finite_stops_the_loop_at_its_round(weight: float, output: float) -> None:
    protocol, stream = dataclasses.replace(CASE.protocol(), advance=False), stream_of(CASE)
    learner = Poisoned(jnp.asarray(weight), jnp.asarray(output))
    loop = OnlineLoop(learner, protocol, cross_entropy, True, dispatch=DISPATCH)
    state, records = ran(loop, stream, started(loop, stream, START), [3, DISPATCH])
    # Three updates in rounds 1 to 3 of the first task, round 0 of the second, then updates 4 and 5.
    assert not state.finite
    assert (records.position[-1], records.round[-1], int(state.rounds)) == (1, 2, 7)
    assert len(records.loss) == 7
    assert np.isfinite(records.loss[:-1]).all()
    assert np.isfinite(records.loss[-1]) == np.isfinite(output)
    after, _, count = run(loop, stream, state, RUN, counted(3))
    assert int(count) == 0
    assert_same_bits(after, state)


class Right(Learner):
    """Is right about the first `count` of the test examples, whose class is 0. Its state has no floats."""

    count: Any

    @property
    def wants(self) -> Any:
        return frozenset({"batch"})

    def init(self, key: Any) -> Any:
        return jnp.zeros((), jnp.int32)

    def update(self, state: Any, drawn: Drawn, key: Any) -> Any:
        return state + 1, {"loss": jnp.zeros(())}

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        right = jax.nn.one_hot(jnp.zeros(query.shape[0], int), 2)
        return jnp.where((jnp.arange(query.shape[0]) < self.count)[:, None], right, 1 - right)


@pytest.mark.parametrize(("threshold", "test_size"), [(0.85, 100), (0.8, 100), (0.86, 50)])
def test_an_accuracy_of_exactly_the_threshold_is_enough(threshold: float, test_size: int) -> None:
    right = round(threshold * test_size)
    rows = np.arange(4 * test_size).reshape(2, -1)
    x, y = np.zeros((4 * test_size, 1)), np.zeros(4 * test_size, np.int32)
    tasks = TaskSet("zeros", x, y, rows[:, test_size:], rows[:, :test_size], ("a", "b")).on_device()
    protocol = OnlineProtocol(max_steps=1, threshold=threshold, test_size=test_size)
    stream = make_stream(tasks, protocol, WORLD)
    found = []
    for count in (right - 1, right):
        loop = OnlineLoop(Right(jnp.asarray(count)), protocol, cross_entropy, True, DISPATCH)
        _, records, _ = run(loop, stream, loop.start(stream, START), RUN, counted(1))
        assert records.accuracy[0] == pytest.approx(count / test_size)
        found.append(bool(records.mastered[0]))
    assert found == [False, True]


def test_accuracy_cannot_be_asked_for_in_a_regression() -> None:
    case = Case("toe", regression, (("advance", True), ("measure", "accuracy"), ("threshold", 0.5)))
    assert_refused(case.loop, ["measure", "'loss'", "'accuracy'"])


@pytest.mark.parametrize("dispatch", [0, -1, 1.5, True])
def test_a_dispatch_is_at_least_one_round(dispatch: Any) -> None:
    loop = CASE.loop()
    assert_refused(lambda: dataclasses.replace(loop, dispatch=dispatch), ["dispatch", str(dispatch)])
