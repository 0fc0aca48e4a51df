"""Accuracy and loss on tasks for several numbers of shots, from as many episodes as the standard error requires."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from anyshot.offline.split import Draw
from anyshot.shots import Episodes
from anyshot.tasks import ClassTasks

if TYPE_CHECKING:
    from anyshot.offline.loop import OfflineLoop

MIN_ROUNDS = 20  # with fewer, the standard error is not reliable
ROUNDS_PER_CALL = 5  # of the compiled function


class Scores(eqx.Module):
    """The result of a test: for each number of shots, means over episodes and their standard errors.

    Accuracy and its error are NaN in a regression. `task_accuracy` and `task_loss` are those of each test task, in the
    order of the test tasks; None if an episode is of classes that are drawn, and not of a task.
    """

    shots: tuple[int, ...]
    accuracy: Float[np.ndarray, " shots"]
    accuracy_error: Float[np.ndarray, " shots"]
    loss: Float[np.ndarray, " shots"]
    loss_error: Float[np.ndarray, " shots"]
    episodes: int
    task_accuracy: Float[np.ndarray, "tasks shots"] | None = None
    task_loss: Float[np.ndarray, "tasks shots"] | None = None


def evaluate(
    loop: OfflineLoop,
    tests: Draw,
    learner: PyTree[Any],
    key: Key[Array, ""],
    count_episodes: Callable[[int], None] = lambda episodes: None,
    compiled_rounds: Callable[..., Any] | None = None,
) -> Scores:
    """Test a learner's state.

    A round has one episode of each task, which is tested with each number of shots. Every round covers all tasks, so
    differences between tasks do not add to the standard error, which is that of the mean over rounds. Rounds are added
    until the protocol's `standard_error` or `max_episodes` is reached.

    Args:
        loop: the learner, the protocol and the loss.
        tests: draws the episodes.
        learner: the state to test.
        key: draws everything random.
        count_episodes: called with the number of episodes so far.
        compiled_rounds: `some_rounds`, compiled. Give it to compile once for several tests.
    """
    protocol, each = loop.protocol, _tasks_a_round(tests)
    compiled_rounds = compiled_rounds or eqx.filter_jit(some_rounds)
    found: list[Any] = []
    while True:
        first = jnp.asarray(ROUNDS_PER_CALL * len(found), jnp.int32)
        found.append(jax.device_get(compiled_rounds(loop, tests, learner, key, first)))
        by_task = [np.concatenate(parts).astype(np.float64) for parts in zip(*found, strict=True)]
        accuracy, loss = (values.mean(axis=1) for values in by_task)
        rounds = len(loss)
        count_episodes(rounds * each)
        with np.errstate(all="ignore"):  # of a model that has diverged; the caller checks whether losses are finite
            errors = [values.std(axis=0, ddof=1) / np.sqrt(rounds) for values in (accuracy, loss)]
            wide = 100 * (errors[0] if loop.classification else errors[1] / np.abs(loss.mean(axis=0)))
        certain = rounds >= MIN_ROUNDS and bool(np.all(wide <= protocol.standard_error))
        if certain or rounds * each >= protocol.max_episodes:
            task_accuracy, task_loss = (None if loop.protocol.ways else values.mean(axis=0) for values in by_task)
            return Scores(
                protocol.test_shots,
                accuracy.mean(axis=0),
                errors[0],
                loss.mean(axis=0),
                errors[1],
                rounds * each,
                task_accuracy,
                task_loss,
            )


def some_rounds(
    loop: OfflineLoop, tests: Draw, learner: PyTree[Any], key: Key[Array, ""], first: Int[Array, ""]
) -> tuple[Float[Array, "rounds tasks shots"], Float[Array, "rounds tasks shots"]]:
    """Accuracy and loss of each episode of `ROUNDS_PER_CALL` rounds, from round number `first` on."""
    keys = jax.vmap(lambda number: jax.random.fold_in(key, number))(first + jnp.arange(ROUNDS_PER_CALL))
    return jax.lax.map(lambda one: _round(loop, tests, learner, one), keys)


def try_out(
    loop: OfflineLoop, tests: Draw, learner: PyTree[Any], key: Key[Array, ""], episodes: int
) -> tuple[Float[Array, " shots"], Float[Array, " shots"]]:
    """Mean accuracy and loss for each number of shots, over at least `episodes` episodes."""
    rounds = -(-episodes // _tasks_a_round(tests))
    accuracy, loss = jax.lax.map(lambda one: _round(loop, tests, learner, one), jax.random.split(key, rounds))
    return jnp.mean(accuracy, axis=(0, 1)), jnp.mean(loss, axis=(0, 1))


def _tasks_a_round(tests: Draw) -> int:
    return tests.protocol.tasks_per_update if isinstance(tests.tasks, ClassTasks) else tests.tasks.num_tasks


def _round(
    loop: OfflineLoop, tests: Draw, learner: PyTree[Any], key: Key[Array, ""]
) -> tuple[Float[Array, "tasks shots"], Float[Array, "tasks shots"]]:
    """Accuracy and loss of one episode of each task, tested with its first s shots for each s in `test_shots`."""
    tasks, shots = _tasks_a_round(tests), jnp.asarray(tests.protocol.test_shots, jnp.int32)
    state, static = eqx.partition(learner, eqx.is_array)

    def of_task(one: tuple[Key[Array, ""], Int[Array, ""]]) -> Any:
        key, task = one
        most = jnp.asarray(tests.protocol.test_shots[-1], jnp.int32)
        episode = tests.episode(key, task, most)

        def of_shots(count: Int[Array, ""]) -> tuple[Float[Array, ""], Float[Array, ""]]:
            support = eqx.tree_at(lambda shots: shots.count, episode.train, count * tests.each)
            return _tested(loop, eqx.combine(state, static), Episodes(support, episode.val))

        return jax.vmap(of_shots)(shots)

    keys = jax.random.split(key, tasks)
    accuracy, loss = jax.lax.map(
        of_task, (keys, jnp.arange(tasks)), batch_size=min(tasks, tests.protocol.tasks_per_update)
    )
    return accuracy, loss


def _tested(loop: OfflineLoop, learner: PyTree[Any], one: Episodes) -> tuple[Float[Array, ""], Float[Array, ""]]:
    outputs = loop.learner.predict(learner, one.train, one.val.x)
    loss = jnp.mean(jax.vmap(loop.loss)(outputs, one.val.y))
    if not loop.classification:
        return jnp.full_like(loss, jnp.nan), loss
    return jnp.mean(jnp.argmax(outputs, axis=-1) == one.val.y, dtype=loss.dtype), loss
