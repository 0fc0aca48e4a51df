"""Algorithm 1: tasks one after another, data a little at a time, learning and evaluation in between; all compiled.

A round is what lies between two arrivals of data. Round 0 of a task only evaluates: zero shots, before the first
datapoint. In every other round data arrives, `every` steps of `updates` (meta-)updates are taken on the buffer, and the
model is evaluated on the current task with the shots it then has. A task ends when it is mastered or its rounds are
used up. One compiled function runs as many rounds as asked for; nothing is compiled anew from task to task.
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
from anyshot.online.borrowing import completed
from anyshot.online.buffer import Buffer
from anyshot.online.protocol import Protocol
from anyshot.online.stream import Stream
from anyshot.rounds import all_finite, run_rounds


class OnlineState(eqx.Module):
    """Where a run is: all of it, so that saving this and reading it back changes nothing.

    Args:
        learner: the method's state.
        buffer: what has been received.
        position: t, the current task's position in the stream.
        round: of the current task.
        rounds: of the whole run, pretraining included; draws this round's random numbers.
        finite: whether every loss and every number of the learner's state has been finite.
    """

    learner: PyTree[Any]
    buffer: Buffer
    position: Int[Array, ""]
    round: Int[Array, ""]
    rounds: Int[Array, ""]
    finite: Bool[Array, ""]


class Record(NamedTuple):
    """What one round found. `accuracy` is NaN in a regression."""

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
    """A learner in a protocol: `start` it, then `run` rounds.

    Args:
        learner: the method.
        protocol: the rules.
        loss: of one test datapoint.
        classification: whether accuracy has a meaning.
        dispatch: rounds in one call of the compiled function, at most.
    """

    learner: Learner
    protocol: Protocol = eqx.field(static=True)
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
        """Up to `rounds` rounds, stopping at the end of the stream or at a number that is not finite.

        Returns:
            the state, records with a leading axis of length `dispatch`, and how many of them are filled.
        """
        return run_rounds(
            lambda state: self.round(stream, state, key),
            lambda state: state.finite & (state.position < stream.positions),
            state,
            rounds,
            self.dispatch,
        )

    def round(self, stream: Stream, state: OnlineState, key: Key[Array, ""]) -> tuple[OnlineState, Record]:
        """One round: arrival, updates, evaluation, and whether the task has ended."""
        rules = self.protocol
        of_updates, of_evaluation = jax.random.split(jax.random.fold_in(key, state.rounds))
        pretraining = state.rounds < rules.pretrain_rounds
        learning = pretraining | (state.round > 0)
        arriving = learning & ~pretraining
        buffer: Buffer = lax.cond(
            arriving, lambda b: b.arrived(state.position, rules.arrive, stream.capacity), lambda b: b, state.buffer
        )
        learner, metrics = self.learned(stream, state, buffer, of_updates, learning)
        if "memory" in self.learner.wants:  # what the last update remembered may lack the task that has just ended
            of_recall = jax.random.fold_in(of_evaluation, 1)
            memory, _ = buffer.memory(stream, rules, state.position, of_recall)
            learner = self.learner.recall(learner, memory)
        support = buffer.support(stream, rules, state.position, of_evaluation)
        adapted_on = support
        if rules.borrow:
            of_borrowing = jax.random.fold_in(of_evaluation, 2)
            adapted_on = completed(stream, buffer.received, state.position, support, of_borrowing)
        loss, right = self.evaluated(stream, learner, adapted_on, state.position)
        # Counts are compared, not quotients: 85 right of 100 must reach a threshold of 0.85 whatever rounding does.
        enough = math.ceil(rules.threshold * rules.test - 1e-9)
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
            right / rules.test if self.classification else jnp.full_like(loss, jnp.nan),
            mastered,
            ended,
            pretraining,
            metrics,
            self.learner.rates(learner),
        )
        return new, record

    def learned(
        self, stream: Stream, state: OnlineState, buffer: Buffer, key: Key[Array, ""], learning: Bool[Array, ""]
    ) -> tuple[PyTree[Any], dict[str, Float[Array, ""]]]:
        """The learner after this round's updates, and the mean of what they reported; as it was if there are none."""
        rules = self.protocol
        steps = rules.every * rules.updates
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

    def evaluated(
        self, stream: Stream, learner: PyTree[Any], support: Any, position: Int[Array, ""]
    ) -> tuple[Float[Array, ""], Int[Array, ""]]:
        """Mean loss on the task's test data after adapting to the shots, and how many classes were right."""
        x, y = stream.test_set(position)
        outputs = self.learner.predict(learner, support, x)
        loss = jnp.mean(jax.vmap(self.loss)(outputs, y))
        if not self.classification:
            return loss, jnp.zeros((), jnp.int32)
        return loss, jnp.sum(jnp.argmax(outputs, axis=-1) == y, dtype=jnp.int32)
