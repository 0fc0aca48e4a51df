"""The learner `anyshot`: its experts, and its powers in the online loop against a replay in NumPy."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from anyshot import Shots
from anyshot.learners.anyshot import FIRST
from anyshot.learners.pool import COUNTS, RATE, STEEPEST, UNIFORM_SHARE
from anyshot.online import Stream
from tests.support.gaussian_kernels import predict_classes, predict_targets
from tests.support.learners import INPUT, M, N, build, some
from tests.support.online_cases import RUN, START, Case, counted, run, started, stream_of
from tests.support.refusals import assert_refused
from tests.support.tiny_tasks import classification, regression

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]
SMALL = (("features", 4), ("learning_rate", 0.03))


def plain_experts(learner: Any, state: Any, x: np.ndarray, y: np.ndarray, query: np.ndarray) -> np.ndarray:
    """What each expert predicts: the kernel by scikit-learn. Probabilities, or targets."""
    most, outputs = learner.spec.problem.max_shots, learner.spec.problem.outputs
    none = Shots(jnp.zeros((1, 4)), jnp.zeros((1, *y.shape[1:]), y.dtype), jnp.zeros((), jnp.int32))
    last = Shots.of(x[-most:], y[-most:]) if len(x) else none
    every = Shots.of(x, y) if len(x) else none
    learned = [
        learner.ftml.predict(state.ftml, last, jnp.asarray(query)),
        learner.head.predict(state.head, every, jnp.asarray(query)),
    ]
    if learner.spec.problem.classification:
        return np.stack([*map(jax.nn.softmax, learned), predict_classes(x, y, query, outputs)], axis=1)
    return np.stack([*learned, predict_targets(x, y, query)], axis=1)


class PlainPool:
    """The pool in NumPy: the powers for each number of labels, and the squared errors of a regression."""

    def __init__(self, classification: bool) -> None:
        self.classification = classification
        self.powers = np.tile(FIRST, (COUNTS, 1))
        self.start()

    def start(self) -> None:
        """A task begins."""
        self.count, self.squares, self.errors = 0, np.ones(len(FIRST)), 1

    def now(self) -> np.ndarray:
        """v, a view."""
        found: np.ndarray = self.powers[int(np.log2(self.count + 1))]
        return found

    def combine(self, predicted: np.ndarray) -> np.ndarray:
        """Probabilities, or a target, of one input."""
        if self.classification:
            product = np.prod(smooth(predicted) ** self.now()[:, None], axis=0)
            return np.asarray(product / product.sum())
        precisions = self.now() * self.errors / self.squares
        return np.asarray(precisions @ predicted / precisions.sum())

    def follow(self, predicted: np.ndarray, y: Any) -> None:
        """A label arrives."""
        pooled = self.combine(predicted)
        if self.classification:
            logs = np.log(smooth(predicted))
            slope = logs @ pooled - logs[:, int(y)]
        else:
            precision, y = self.errors / self.squares, np.reshape(y, -1)
            far = y - pooled
            slope = precision * (far @ far / 2 - (predicted - pooled) @ far - len(y) / 2 / (self.now() @ precision))
            self.squares = self.squares + np.sum((predicted - y) ** 2, axis=1)
            self.errors += len(y)
        self.now()[:] *= np.exp(-RATE * np.clip(slope, -STEEPEST, STEEPEST))
        self.count += 1


def smooth(probabilities: np.ndarray) -> np.ndarray:
    return (1 - UNIFORM_SHARE) * probabilities + UNIFORM_SHARE / probabilities.shape[-1]


@pytest.mark.parametrize("tasks", [classification, pytest.param(regression, marks=pytest.mark.slow)])
def test_the_loop_pools_experts_by_labels_they_have_not_seen(tasks: Any) -> None:
    """A replay, round by round, with the states that the loop had before it learned from the labels."""
    case = Case("anyshot", tasks, (("advance", False),), SMALL)
    loop, stream = case.loop(), stream_of(case)
    learner = loop.learner
    state = started(loop, stream, START)
    pool, held, rounds, new = PlainPool(case.is_classification), 0, 0, True
    while int(state.position) < stream.positions:
        position = int(state.position)
        x, y = (np.asarray(part) for part in stream.tasks.look_up(stream.train_rows[position]))
        if new:
            pool.start()
            held = 0
        else:
            arrived = slice(held, min(held + 2, int(stream.capacities[position])))
            predicted = plain_experts(learner, state.learner, x[:held], y[:held], x[arrived])
            for one, label in zip(predicted, y[arrived], strict=True):
                pool.follow(one, label)
            held = arrived.stop
        state, records, _ = run(loop, stream, state, RUN, counted(1), str(case))
        loss = plain_loss(learner, state.learner, pool, stream, position, (x[:held], y[:held]))
        np.testing.assert_allclose(records.loss[0], loss, atol=5e-5)
        np.testing.assert_allclose(np.exp(state.learner.powers.log), pool.powers, atol=2e-5)
        new = bool(records.ended[0])
        assert int(state.learner.powers.count) == (0 if new else pool.count)
        rounds += 1
    assert rounds > 2 * stream.positions
    assert np.abs(pool.powers - FIRST).max() > 0.05  # something was learned about the experts


def plain_loss(learner: Any, state: Any, pool: PlainPool, stream: Stream, position: int, held: Any) -> float:
    x, y = (np.asarray(part) for part in stream.test_set(jnp.asarray(position)))
    pooled = np.array([pool.combine(one) for one in plain_experts(learner, state, *held, x)])
    if learner.spec.problem.classification:
        return float(-np.log(pooled[np.arange(len(y)), y]).mean())
    return float(np.mean([learner.spec.loss(jnp.asarray(a), jnp.asarray(b)) for a, b in zip(pooled, y, strict=True)]))


def test_predictions_have_the_powers_of_their_number_of_labels() -> None:
    learner: Any = build("anyshot", features=2)
    state = learner.init(jax.random.key(0))
    observed = learner.observe(state, learner.expect(state, some(0, size=M), some(2, 1).x), some(2, 1))
    assert int(observed.powers.count) == 2
    assert not np.allclose(observed.powers.log[:2], state.powers.log[:2])
    for shots in (some(0, size=M), some(2, 1, size=M + 2), some(3, 1, size=M + 2)):
        by_expert = np.exp(learner.expect(observed, shots, some(3, 1).x))
        powers = np.exp(observed.powers.log)[int(np.log2(int(shots.count) + 1))]
        product = np.prod(smooth(by_expert) ** powers[:, None], axis=1)
        by_hand = product / product.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(jnp.exp(learner.predict(observed, shots, some(3, 1).x)), by_hand, atol=1e-12)


def test_arguments_that_make_no_sense_are_refused() -> None:
    for name, value in (
        ("learning_rate", 0),
        ("first_rate", -1),
        ("adaptation_steps", 0),
        ("features", 0),
        ("batching", 1),
    ):
        assert_refused(lambda name=name, value=value: build("anyshot", **{name: value}), [name, repr(value)])
    assert_refused(lambda: build("anyshot", optimiser=optax.sgd(0.1)), ["anyshot", "optimiser"])
    assert build("anyshot", example=(INPUT, INPUT)).spec.problem.outputs == N
