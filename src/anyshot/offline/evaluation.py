"""K-shot accuracy on tasks, for several K, from as many episodes as it takes to be certain enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from anyshot.adaptation import Episodes
from anyshot.offline.split import Draw
from anyshot.tasks import ClassTasks

if TYPE_CHECKING:
    from anyshot.offline.loop import OfflineLoop

FEWEST_ROUNDS = 20  # with fewer, the spread of the rounds' means says little
ROUNDS_A_DISPATCH = 5


class Scores(eqx.Module):
    """What came out for each number of shots: means over episodes, and their standard errors.

    Accuracy and its error are NaN in a regression.
    """

    shots: tuple[int, ...]
    accuracy: Float[np.ndarray, " shots"]
    accuracy_error: Float[np.ndarray, " shots"]
    loss: Float[np.ndarray, " shots"]
    loss_error: Float[np.ndarray, " shots"]
    episodes: int


def evaluate(
    loop: OfflineLoop,
    tests: Draw,
    learner: PyTree[Any],
    key: Key[Array, ""],
    tell: Callable[[int], None] = lambda episodes: None,
    rounds_of: Callable[..., Any] | None = None,
) -> Scores:
    """Test a learner's state.

    A round is one episode of every task and number of shots, so the spread between tasks, which are all there, does not
    blur the mean; its standard error is that of the rounds' means. Rounds are added until the plan's certainty is
    reached or its episodes are used up.

    Args:
        loop: the learner, the plan and the loss.
        tests: draws the episodes.
        learner: the state to test.
        key: draws everything random.
        tell: called with the number of episodes so far.
        rounds_of: `some_rounds`, compiled; give it to compile once for several tests.
    """
    plan, each = loop.plan, _tasks_a_round(tests)
    rounds_of = rounds_of or eqx.filter_jit(some_rounds)
    found: list[Any] = []
    while True:
        first = jnp.asarray(ROUNDS_A_DISPATCH * len(found), jnp.int32)
        found.append(jax.device_get(rounds_of(loop, tests, learner, key, first)))
        accuracy, loss = (np.concatenate(parts).astype(np.float64) for parts in zip(*found, strict=True))
        rounds = len(loss)
        tell(rounds * each)
        with np.errstate(all="ignore"):  # a model that has diverged gives what is not finite, which the caller sees
            errors = [values.std(axis=0, ddof=1) / np.sqrt(rounds) for values in (accuracy, loss)]
            wide = 100 * (errors[0] if loop.classification else errors[1] / np.abs(loss.mean(axis=0)))
        certain = rounds >= FEWEST_ROUNDS and bool(np.all(wide <= plan.standard_error))
        if certain or rounds * each >= plan.most_episodes:
            return Scores(
                plan.test_shots, accuracy.mean(axis=0), errors[0], loss.mean(axis=0), errors[1], rounds * each
            )


def some_rounds(
    loop: OfflineLoop, tests: Draw, learner: PyTree[Any], key: Key[Array, ""], first: Int[Array, ""]
) -> tuple[Float[Array, "rounds shots"], Float[Array, "rounds shots"]]:
    """Accuracy and loss of a few rounds of episodes, from round number `first` on."""
    keys = jax.vmap(lambda number: jax.random.fold_in(key, number))(first + jnp.arange(ROUNDS_A_DISPATCH))
    return jax.lax.map(lambda one: _round(loop, tests, learner, one), keys)


def tried(
    loop: OfflineLoop, tests: Draw, learner: PyTree[Any], key: Key[Array, ""], episodes: int
) -> tuple[Float[Array, " shots"], Float[Array, " shots"]]:
    """Mean accuracy and loss for each number of shots over at least so many episodes."""
    rounds = -(-episodes // _tasks_a_round(tests))
    accuracy, loss = jax.lax.map(lambda one: _round(loop, tests, learner, one), jax.random.split(key, rounds))
    return jnp.mean(accuracy, axis=0), jnp.mean(loss, axis=0)


def _tasks_a_round(tests: Draw) -> int:
    return tests.plan.tasks_per_update if isinstance(tests.tasks, ClassTasks) else tests.tasks.tasks


def _round(
    loop: OfflineLoop, tests: Draw, learner: PyTree[Any], key: Key[Array, ""]
) -> tuple[Float[Array, " shots"], Float[Array, " shots"]]:
    """One episode of every task, tested with its first s shots for every s."""
    tasks, shots = _tasks_a_round(tests), jnp.asarray(tests.plan.test_shots, jnp.int32)
    state, static = eqx.partition(learner, eqx.is_array)

    def of_task(one: tuple[Key[Array, ""], Int[Array, ""]]) -> Any:
        key, task = one
        most = jnp.asarray(tests.plan.test_shots[-1], jnp.int32)
        episode = tests.episode(key, task, most)

        def of_shots(count: Int[Array, ""]) -> tuple[Float[Array, ""], Float[Array, ""]]:
            support = eqx.tree_at(lambda shots: shots.count, episode.train, count * tests.each)
            return _tested(loop, eqx.combine(state, static), Episodes(support, episode.val))

        return jax.vmap(of_shots)(shots)

    keys = jax.random.split(key, tasks)
    accuracy, loss = jax.lax.map(of_task, (keys, jnp.arange(tasks)), batch_size=min(tasks, tests.plan.tasks_per_update))
    return jnp.mean(accuracy, axis=0), jnp.mean(loss, axis=0)


def _tested(loop: OfflineLoop, learner: PyTree[Any], one: Episodes) -> tuple[Float[Array, ""], Float[Array, ""]]:
    outputs = loop.learner.predict(learner, one.train, one.val.x)
    loss = jnp.mean(jax.vmap(loop.loss)(outputs, one.val.y))
    if not loop.classification:
        return jnp.full_like(loss, jnp.nan), loss
    return jnp.mean(jnp.argmax(outputs, axis=-1) == one.val.y, dtype=loss.dtype), loss
