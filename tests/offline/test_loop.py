"""Meta-training: what it keeps and when it stops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anyshot import cross_entropy
from anyshot.learners import Learner
from anyshot.offline import OfflineLoop, split_for
from tests.support.learners import build
from tests.support.offline_tasks import RULES, numbered
from tests.support.refusals import assert_refused

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]

KEY = jax.random.key(0)


class Scripted(Learner):
    """Answers a share of the queries rightly that depends on how often it was updated, as the script says."""

    script: tuple[float, ...] = eqx.field(static=True)

    @property
    def wants(self) -> Any:
        return frozenset({"episodes"})

    def init(self, key: Any) -> Any:
        return {"updates": jnp.zeros((), jnp.int32)}

    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return {"updates": state["updates"] + 1}, {"loss": state["updates"].astype(float)}

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        score = jnp.asarray(self.script)[state["updates"] // RULES.steps_per_trial]
        rightly = jnp.arange(query.shape[0]) < jnp.round(score * query.shape[0])
        right = query[:, 0].astype(int) % 3
        return jax.nn.one_hot(jnp.where(rightly, right, (right + 1) % 3), 3)


@pytest.mark.parametrize(
    ("script", "rounds", "best"),
    [
        ((0, 0.2, 0.4, 0.6, 0.8), 4, 4),  # all steps are used
        ((0, 0.6, 0.4, 0.4, 0.8), 3, 1),  # two trials bring nothing better: what would have come is not waited for
        ((0, 0.6, 0.4, 0.8, 0.8), 4, 3),  # as good is not better
    ],
)
def test_training_stops_when_trials_bring_nothing_better(script: tuple[float, ...], rounds: int, best: int) -> None:
    split = split_for(numbered().on_device(), RULES)
    loop = OfflineLoop(Scripted(script), RULES, cross_entropy, True)
    start = loop.start(split, KEY)
    state, records, done = eqx.filter_jit(loop.run)(split, start, KEY, jnp.asarray(20))
    every = RULES.steps_per_trial
    assert (int(done), int(state.rounds), int(state.best_round)) == (rounds, rounds, best)
    assert int(state.best["updates"]) == best * every
    assert int(state.learner["updates"]) == rounds * every
    np.testing.assert_allclose(records.score[:rounds], script[1 : rounds + 1], rtol=1e-6)
    np.testing.assert_allclose(records.metrics["loss"][:rounds], (every - 1) / 2 + every * np.arange(rounds))
    assert records.ended[:rounds].tolist() == [False] * (rounds - 1) + [True]


class Overflowing(Scripted):
    """Whose outputs are not finite after twenty updates, though its state is."""

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return super().predict(state, support, query) / (state["updates"] != 20)


def test_outputs_that_are_not_finite_stop_training_and_are_not_kept() -> None:
    """Their accuracy is a number like any other."""
    split = split_for(numbered().on_device(), RULES)
    loop = OfflineLoop(Overflowing((0, 0.2, 1, 1, 1)), RULES, cross_entropy, True)
    state, records, done = loop.run(split, loop.start(split, KEY), KEY, jnp.asarray(20))
    assert (int(done), bool(state.finite), int(state.best_round)) == (2, False, 1)
    assert np.isfinite(records.score[:2]).all()


class Constant(Scripted):
    """Always answers class 0, so that its accuracy tells which queries were asked."""

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return jnp.broadcast_to(jax.nn.one_hot(0, 3), (query.shape[0], 3))


def test_all_trials_of_a_run_ask_the_same_queries() -> None:
    rules = replace(RULES, patience=9)
    split = split_for(numbered(test=300).on_device(), rules)
    loop = OfflineLoop(Constant(()), rules, cross_entropy, True)
    run = eqx.filter_jit(loop.run)
    scores = [run(split, loop.start(split, key), key, jnp.asarray(20))[1].accuracy[:4] for key in jax.random.split(KEY)]
    for accuracy in scores:
        np.testing.assert_array_equal(accuracy, np.tile(accuracy[:1], (4, 1)))
    assert (scores[0] != scores[1]).any(), "they are drawn by the key"


def test_held_examples_of_the_training_tasks_stop_training() -> None:
    rules = replace(RULES, validation_tasks="all")
    split = split_for(numbered().on_device(), rules)
    loop = OfflineLoop(Scripted((0, 0.6, 0.4, 0.4, 0.8)), rules, cross_entropy, True)
    state, records, done = loop.run(split, loop.start(split, KEY), KEY, jnp.asarray(20))
    assert (int(done), int(state.best_round)) == (3, 1)
    np.testing.assert_allclose(records.score[:3], (0.6, 0.4, 0.4), rtol=1e-6)


def test_without_validation_tasks_the_final_state_is_kept() -> None:
    rules = replace(RULES, validation_tasks=0)
    split = split_for(numbered().on_device(), rules)
    loop = OfflineLoop(Scripted((0, 1, 0, 0, 0)), rules, cross_entropy, True)
    state, records, done = loop.run(split, loop.start(split, KEY), KEY, jnp.asarray(20))
    assert (int(done), int(state.best["updates"])) == (4, 40)
    assert np.isnan(records.accuracy[:4]).all()
    assert np.isnan(records.loss[:4]).all()


def test_dispatches_of_any_size_give_the_same() -> None:
    split = split_for(numbered().on_device(), RULES)
    loop = OfflineLoop(Scripted((0, 0.2, 0.4, 0.6, 0.8)), RULES, cross_entropy, True)
    run = eqx.filter_jit(loop.run)
    whole, _, _ = run(split, loop.start(split, KEY), KEY, jnp.asarray(20))
    state = loop.start(split, KEY)
    for rounds in (1, 2, 1):
        state, _, done = run(split, state, KEY, jnp.asarray(rounds))
        assert int(done) == rounds
    assert eqx.tree_equal(state, whole)


@pytest.mark.parametrize(("name", "wants"), [("toe", "batch"), ("protonet", "memory")])
def test_a_learner_that_wants_more_than_episodes_is_refused(name: str, wants: str) -> None:
    assert_refused(lambda: OfflineLoop(build(name), RULES, cross_entropy, True), [name, wants, "episodes"])
