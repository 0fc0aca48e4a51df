"""The learner `anyshot`: its experts, and its weights in the online loop against a replay in NumPy."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from anyshot import Shots
from anyshot.learners.anyshot import FIRST, REGULARISATION
from anyshot.lifelong.progress import Fact, Progress
from anyshot.online import Stream
from tests.support.learners import INPUT, M, N, build, some
from tests.support.online_cases import RUN, START, Case, counted, run, started, stream_of
from tests.support.refusals import assert_refused
from tests.support.tiny_tasks import classification, regression

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]
SMALL = (("features", 4), ("learning_rate", 0.03))


def plain_experts(learner: Any, state: Any, x: np.ndarray, y: np.ndarray, query: np.ndarray) -> np.ndarray:
    """What each expert predicts: the linear ones by scikit-learn. Probabilities, or targets."""
    most, outputs = learner.spec.problem.max_shots, learner.spec.problem.outputs
    none = Shots(jnp.zeros((1, 4)), jnp.zeros((1, *y.shape[1:]), y.dtype), jnp.zeros((), jnp.int32))
    last = Shots.of(x[-most:], y[-most:]) if len(x) else none
    every = Shots.of(x, y) if len(x) else none
    of_ftml = learner.ftml.predict(state.ftml, last, jnp.asarray(query))
    of_head = learner.head.predict(state.head, every, jnp.asarray(query))
    if not learner.spec.problem.classification:
        own = [
            Ridge(alpha=r).fit(x, y).predict(query) if len(x) else np.zeros((len(query), outputs))
            for r in REGULARISATION
        ]
        return np.stack([of_ftml, of_head, *own], axis=1)
    return np.stack(
        [jax.nn.softmax(of_ftml), jax.nn.softmax(of_head)]
        + [plain_scratch(x, y, query, outputs, 1 / r) for r in REGULARISATION],
        axis=1,
    )


def plain_scratch(x: np.ndarray, y: np.ndarray, query: np.ndarray, classes: int, strength: float) -> np.ndarray:
    """Logistic regression; a class without a label has probability 1 / (n + K)."""
    seen = np.unique(y)
    found = np.full((len(query), classes), 1 / (len(y) + classes))
    rest = 1 - (classes - len(seen)) / (len(y) + classes)
    if len(seen) == 1:
        found[:, seen] = rest
    elif len(seen) > 1:
        found[:, seen] = rest * LogisticRegression(C=strength, tol=1e-10, max_iter=5000).fit(x, y).predict_proba(query)
    return found


@pytest.mark.parametrize("tasks", [classification, pytest.param(regression, marks=pytest.mark.slow)])
def test_the_loop_weighs_the_experts_by_labels_they_have_not_seen(tasks: Any) -> None:
    """A replay, round by round, with the states that the loop had before it learned from the labels."""
    case = Case("anyshot", tasks, (("advance", False),), SMALL)
    loop, stream = case.loop(), stream_of(case)
    learner = loop.learner
    state = started(loop, stream, START)
    progress, prior, held, rounds = None, np.array(FIRST), 0, 0
    while int(state.position) < stream.positions:
        position = int(state.position)
        x, y = (np.asarray(part) for part in stream.tasks.look_up(stream.train_rows[position]))
        if progress is None:
            progress, held = Progress.start(prior.tolist(), classification=case.is_classification), 0
        else:
            arrived = slice(held, min(held + 2, int(stream.capacities[position])))
            facts = plain_experts(learner, state.learner, x[:held], y[:held], x[arrived])
            progress = progress.follow([Fact(fact) for fact in facts], y[arrived])
            held = arrived.stop
        state, records, _ = run(loop, stream, state, RUN, counted(1), str(case))
        loss = plain_loss(learner, state.learner, progress, stream, position, (x[:held], y[:held]))
        np.testing.assert_allclose(records.loss[0], loss, atol=2e-5)
        if bool(records.ended[0]):
            prior, progress = np.exp(state.learner.log_prior), None
            np.testing.assert_array_equal(state.learner.weights.log, state.learner.log_prior)
        else:
            np.testing.assert_allclose(np.exp(state.learner.weights.log), progress.mixture.weights, atol=2e-5)
        rounds += 1
    assert rounds > 2 * stream.positions
    assert np.abs(prior - FIRST).max() > 0.005  # something was learned about the experts


def plain_loss(learner: Any, state: Any, progress: Progress, stream: Stream, position: int, held: Any) -> float:
    x, y = (np.asarray(part) for part in stream.test_set(jnp.asarray(position)))
    mixed = np.array([progress.combine(one) for one in plain_experts(learner, state, *held, x)])
    if learner.spec.problem.classification:
        return float(-np.log(mixed[np.arange(len(y)), y]).mean())
    return float(np.mean([learner.spec.loss(jnp.asarray(a), jnp.asarray(b)) for a, b in zip(mixed, y, strict=True)]))


def test_labels_that_were_not_observed_have_the_first_weights() -> None:
    learner: Any = build("anyshot", features=2)
    state = learner.init(jax.random.key(0))
    observed = learner.observe(state, learner.expect(state, some(0, size=M), some(2, 1).x), some(2, 1))
    assert int(observed.weights.count) == 2
    assert not np.allclose(observed.weights.log, observed.log_prior)
    two, three = some(2, 1, size=M + 2), some(3, 1, size=M + 2)
    for shots, log_weights in ((two, observed.weights.log), (three, observed.log_prior)):
        by_expert = np.exp(learner.expect(observed, shots, three.x))
        by_hand = np.tensordot(by_expert, np.exp(log_weights), axes=(1, 0))
        np.testing.assert_allclose(jnp.exp(learner.predict(observed, shots, three.x)), by_hand, atol=1e-12)


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
