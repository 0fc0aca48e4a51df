"""The comparator of the regret: trained on what was received, evaluated exactly where the run was."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anyshot.online.regret import losses_in_hindsight, train_on
from tests.support.online_cases import DISPATCH, RUN, START, Case, assert_same_bits, ran, started, stream_of
from tests.support.tiny_tasks import classification

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.slow]

# Adam hardly moves with a rate of 1e-12, so the learner of the run is a fixed one, but for rounding.
CASE = Case("ftml-vs", classification, (), (("meta_rate", 1e-12),))


@pytest.fixture(scope="module")
def finished() -> Any:
    loop, stream = CASE.loop(), stream_of(CASE)
    state, records = ran(loop, stream, started(loop, stream, START), [DISPATCH])
    return loop, stream, state, records


def test_a_learner_that_never_changes_has_the_losses_of_its_run(finished: Any) -> None:
    loop, stream, state, records = finished
    assert records.shots.max() > 0
    where = (records.position, records.received, np.arange(len(records.loss)))
    losses = losses_in_hindsight(
        loop, stream, state.learner, RUN, *(jnp.asarray(column, jnp.int32) for column in where)
    )
    np.testing.assert_allclose(losses, records.loss, rtol=0, atol=1e-9)


def test_the_comparator_learns_from_everything_received(finished: Any) -> None:
    loop, stream, state, _ = finished
    key = jax.random.key(7)
    assert_same_bits(train_on(loop, stream, state, key, jnp.asarray(0)), state.learner)
    by_hand, last = state.learner, jnp.asarray(stream.positions - 1, jnp.int32)

    @eqx.filter_jit
    def update(learner: Any, key: Any) -> Any:
        draw = loop.drawing(stream, state.buffer, last)
        return loop.run_updates(learner, loop.update_keys(key), draw, jnp.asarray(True))[0]

    for number in range(2):
        by_hand = update(by_hand, jax.random.fold_in(key, number))
    after = train_on(loop, stream, state, key, jnp.asarray(2))
    for ours, theirs in zip(jax.tree.leaves(after), jax.tree.leaves(by_hand), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-15)
    moved = jax.tree.map(lambda new, old: np.abs(new - old).max(), after.weights, state.learner.weights)
    assert max(jax.tree.leaves(moved)) > 0
