"""The test of a learner: as many episodes as the standard error requires."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anyshot import cross_entropy, squared_error
from anyshot.learners import Learner
from anyshot.offline import OfflineLoop, evaluate
from anyshot.offline.split import Draw
from tests.support.offline_tasks import RULES, TASKS, TRAIN, numbered

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]

KEY = jax.random.key(5)
TESTED = replace(RULES, standard_error=2.0, test_shots=(0, 1, 2, 4))


class Guessing(Learner):
    """Answers class (number of shots) mod 3, whatever is asked."""

    @property
    def wants(self) -> Any:
        return frozenset({"episodes"})

    def init(self, key: Any) -> Any:
        return {}

    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return state, {"loss": jnp.zeros(())}

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return jnp.broadcast_to(jax.nn.one_hot(support.count % 3, 3), (query.shape[0], 3))


@pytest.fixture(scope="module")
def tasks() -> Any:
    """Of 300 test rows of a task, 5 are asked for: an answer is right with probability 1/3."""
    return numbered(test=300).on_device()


def test_episodes_are_added_until_the_standard_error_is_small_enough(tasks: Any) -> None:
    counted: list[int] = []
    loop = OfflineLoop(Guessing(), TESTED, cross_entropy, True)
    scores = evaluate(loop, Draw.test(tasks, TESTED), {}, KEY, counted.append)
    assert scores.shots == (0, 1, 2, 4)
    assert counted == sorted(counted)
    assert counted[-1] == scores.episodes
    assert (100 * scores.accuracy_error <= 2.0).all()
    # The probability of a right answer is 1/3, so the error is known: sqrt(2/9 / datapoints), nearly independent ones.
    expected = np.sqrt(2 / 9 / (5 * scores.episodes))
    np.testing.assert_allclose(scores.accuracy_error, expected, rtol=0.5)
    assert (np.abs(scores.accuracy - 1 / 3) < 4 * scores.accuracy_error).all()
    assert scores.accuracy[1] == scores.accuracy[3]  # 1 and 4 shots: the same answer to the same datapoints


def test_there_are_never_more_episodes_than_the_rules_allow(tasks: Any) -> None:
    rules = replace(TESTED, standard_error=1e-9, max_episodes=130)
    scores = evaluate(OfflineLoop(Guessing(), rules, cross_entropy, True), Draw.test(tasks, rules), {}, KEY)
    assert 130 <= scores.episodes < 130 + 5 * TASKS


class Knowing(Guessing):
    """Knows the classes of the first half of the rows, and answers wrongly for the others."""

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        row = query[:, 0].astype(int)
        return jax.nn.one_hot((row + (row >= TASKS * (TRAIN + 300) // 2)) % 3, 3)


def test_each_task_has_its_accuracy(tasks: Any) -> None:
    scores = evaluate(OfflineLoop(Knowing(), TESTED, cross_entropy, True), Draw.test(tasks, TESTED), {}, KEY)
    np.testing.assert_array_equal(scores.task_accuracy, np.repeat([[1.0], [0.0]], TASKS // 2, axis=0).repeat(4, axis=1))
    np.testing.assert_allclose(scores.accuracy, scores.task_accuracy.mean(axis=0))
    np.testing.assert_allclose(scores.loss, scores.task_loss.mean(axis=0))


class Off(Guessing):
    """Misses its target by (number of shots + 1)."""

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return query % 3 + 1 + support.count


def test_a_regression_has_losses_and_no_accuracy(tasks: Any) -> None:
    targets = tasks.y[:, None].astype(jnp.float32)
    tasks = replace(tasks, y=targets)
    scores = evaluate(OfflineLoop(Off(), TESTED, squared_error, False), Draw.test(tasks, TESTED), {}, KEY)
    assert np.isnan(scores.accuracy).all()
    np.testing.assert_allclose(scores.loss, (1.0 + np.array(scores.shots)) ** 2, rtol=1e-6)
    np.testing.assert_allclose(scores.loss_error, 0, atol=1e-6)
    assert scores.episodes == 20 * TASKS, "the fewest rounds from which an error is estimated"
