"""Algorithm 1 as one compiled function: tasks arrive one after another, and their datapoints a few at a time.

A round goes from one arrival of data to the next. Round 0 of a task only evaluates, with zero shots, before the first
datapoint arrives. In each later round data arrives, `steps_per_arrival` steps are taken on the buffer, and the model is
evaluated on the current task with the shots it has by then. A task ends when it is mastered or when its rounds are used
up. One call of the compiled function runs several rounds, and nothing is compiled again from task to task.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from anyshot.adaptation import Loss
from anyshot.errors import InputError
from anyshot.learners import Learner
from anyshot.online.borrowing import fill_missing_classes
from anyshot.online.buffer import Buffer, Sizes
from anyshot.online.protocol import OnlineProtocol
from anyshot.online.stream import Stream
from anyshot.rounds import all_finite, run_rounds

# The key of an evaluation draws its shots. Folded with these numbers, it draws the memory, the borrowed datapoints and
# fresh test data.
RECALL, BORROW, TEST = 1, 2, 3


def round_keys(key: Key[Array, ""], rounds: Int[Array, ""]) -> Any:
    """The key for the updates and the key for the evaluation of round number `rounds` of a run."""
    return jax.random.split(jax.random.fold_in(key, rounds))


class OnlineState(eqx.Module):
    """The complete state of a run: a run that is saved here and resumed goes on as if nothing had happened.

    Args:
        learner: the learner's state.
        buffer: what has been received.
        position: t, the position of the current task in the stream.
        round: the number of the round within the current task.
        rounds: the number of the round within the run, including pretraining. It determines the random numbers.
        finite: whether the last loss and the learner's state are finite.
    """

    learner: PyTree[Any]
    buffer: Buffer
    position: Int[Array, ""]
    round: Int[Array, ""]
    rounds: Int[Array, ""]
    finite: Bool[Array, ""]


class Record(NamedTuple):
    """The result of one round. `accuracy` is NaN in a regression, `metrics` are NaN if there was no update."""

    position: Int[Array, ""]
    round: Int[Array, ""]
    received: Int[Array, ""]
    shots: Int[Array, ""]
    loss: Float[Array, ""]
    accuracy: Float[Array, ""]
    mastered: Bool[Array, ""]
    ended: Bool[Array, ""]
    pretraining: Bool[Array, ""]
    metrics: dict[str, Float[Array, ""]]
    rates: dict[str, Float[Array, "..."]]


class OnlineLoop(eqx.Module):
    """Runs a learner under a protocol: `start`, then `run` until the stream ends.

    Args:
        learner: the method.
        protocol: the rules.
        loss: the loss of one test datapoint, a function of (output, label).
        classification: whether labels are classes, so that there is an accuracy.
        dispatch: the largest number of rounds in one call of the compiled function.
    """

    learner: Learner
    protocol: OnlineProtocol = eqx.field(static=True)
    loss: Loss = eqx.field(static=True)
    classification: bool = eqx.field(static=True)
    dispatch: int = eqx.field(static=True, default=20)

    def __check_init__(self) -> None:
        if type(self.dispatch) is not int or self.dispatch < 1:
            raise InputError(f"dispatch must be a whole number of at least 1, got {self.dispatch!r}")
        if self.protocol.measure == "accuracy" and self.protocol.advance and not self.classification:
            raise InputError("measure must be 'loss' in a regression, got 'accuracy'")

    def start(self, stream: Stream, key: Key[Array, ""]) -> OnlineState:
        """The state before the first round."""
        zero = jnp.zeros((), jnp.int32)
        first = jnp.asarray(self.protocol.pretrain_tasks, jnp.int32)
        learner = self.learner.init(key)
        return OnlineState(learner, Buffer.empty(stream, self.protocol), first, zero, zero, jnp.asarray(True))

    def run(
        self, stream: Stream, state: OnlineState, key: Key[Array, ""], rounds: Int[Array, ""]
    ) -> tuple[OnlineState, Record, Int[Array, ""]]:
        """Run up to `rounds` rounds. Stops at the end of the stream, or at a number that is not finite.

        Returns:
            The state, the records with a leading axis of length `dispatch`, and the number of records that are filled.
        """
        return run_rounds(
            lambda state: self.round(stream, state, key),
            lambda state: state.finite & (state.position < stream.positions),
            state,
            rounds,
            self.dispatch,
        )

    def round(self, stream: Stream, state: OnlineState, key: Key[Array, ""]) -> tuple[OnlineState, Record]:
        """Run one round: data arrives, the learner is updated and evaluated, and the task may end."""
        rules, sizes = self.protocol, Sizes.of(stream)
        of_updates, of_evaluation = round_keys(key, state.rounds)
        pretraining = state.rounds < rules.pretrain_rounds
        learning = pretraining | (state.round > 0)
        arriving = learning & ~pretraining
        buffer: Buffer = lax.cond(
            arriving,
            lambda b: b.receive(state.position, rules.labels_per_arrival, stream.capacities[state.position]),
            lambda b: b,
            state.buffer,
        )
        learner, metrics = self.run_updates(stream, state, buffer, of_updates, learning)
        if "memory" in self.learner.wants:  # the memory of the last update may lack the task that has just ended
            of_recall = jax.random.fold_in(of_evaluation, RECALL)
            memory = buffer.draw_memory(sizes, rules, state.position, of_recall)
            learner = self.learner.recall(learner, stream.look_up(memory))
        all_labels = self.learner.uses_all_labels
        support = stream.look_up(buffer.draw_support(sizes, rules, state.position, of_evaluation, all_labels))
        adapted_on = support
        if rules.borrow:
            of_borrowing = jax.random.fold_in(of_evaluation, BORROW)
            adapted_on = fill_missing_classes(stream, buffer.received, state.position, support, of_borrowing)
        loss, right = self.evaluate(stream, learner, adapted_on, state.position, of_evaluation)
        # Numbers of right answers are compared, not quotients: rounding must not keep 85 of 100 below 0.85.
        enough = math.ceil(rules.threshold * rules.test_size - 1e-9)
        mastered = right >= enough if rules.measure == "accuracy" else loss <= rules.threshold
        used_up = state.round >= rules.rounds
        ended = ~pretraining & ((mastered & rules.advance) | used_up)
        finite = jnp.isfinite(loss) & all_finite(learner)
        new = OnlineState(
            learner,
            buffer,
            state.position + ended,
            jnp.where(ended | pretraining, 0, state.round + 1).astype(jnp.int32),
            state.rounds + 1,
            finite,
        )
        record = Record(
            state.position,
            state.round,
            buffer.received[state.position],
            support.count,
            loss,
            right / rules.test_size if self.classification else jnp.full_like(loss, jnp.nan),
            mastered,
            ended,
            pretraining,
            metrics,
            self.learner.rates(learner),
        )
        return new, record

    def run_updates(
        self, stream: Stream, state: OnlineState, buffer: Buffer, key: Key[Array, ""], learning: Bool[Array, ""]
    ) -> tuple[PyTree[Any], dict[str, Float[Array, ""]]]:
        """Run the updates of a round, if `learning`.

        Returns:
            The learner's state, and the mean of each metric over the updates (NaN without updates). A learner that
            wants nothing has no updates and no metrics.
        """
        if not self.learner.wants:
            return state.learner, {}
        rules = self.protocol
        steps = rules.steps_per_arrival * rules.updates_per_step
        arrays, static = eqx.partition(state.learner, eqx.is_array)

        def update(arrays: PyTree[Any], key: Key[Array, ""]) -> tuple[PyTree[Any], dict[str, Float[Array, ""]]]:
            of_draw, of_update = jax.random.split(key)
            drawn = buffer.draw(stream, rules, self.learner.wants, state.position, of_draw)
            learner, metrics = self.learner.update(eqx.combine(arrays, static), drawn, of_update)
            return eqx.filter(learner, eqx.is_array), metrics

        def updates(arrays: PyTree[Any]) -> tuple[PyTree[Any], dict[str, Float[Array, ""]]]:
            arrays, metrics = lax.scan(update, arrays, jax.random.split(key, steps))
            return arrays, jax.tree.map(jnp.mean, metrics)

        none = jax.tree.map(
            lambda leaf: jnp.full(leaf.shape, jnp.nan, leaf.dtype), jax.eval_shape(lambda: updates(arrays)[1])
        )
        arrays, metrics = lax.cond(learning, updates, lambda arrays: (arrays, none), arrays)
        return eqx.combine(arrays, static), metrics

    def evaluate(
        self, stream: Stream, learner: PyTree[Any], support: Any, position: Int[Array, ""], key: Key[Array, ""]
    ) -> tuple[Float[Array, ""], Int[Array, ""]]:
        """The mean loss on the task's test data after adapting to the shots, and the number of right answers.

        `key` is that of the evaluation.
        """
        x, y = stream.test_set(position, jax.random.fold_in(key, TEST) if self.protocol.fresh_test else None)
        outputs = self.learner.predict(learner, support, x)
        loss = jnp.mean(jax.vmap(self.loss)(outputs, y))
        if not self.classification:
            return loss, jnp.zeros((), jnp.int32)
        return loss, jnp.sum(jnp.argmax(outputs, axis=-1) == y, dtype=jnp.int32)
