"""Algorithm 1 as one compiled function: tasks arrive one after another, and their datapoints a few at a time.

A round goes from one arrival of data to the next. Round 0 of a task only evaluates, with zero shots, before the first
datapoint arrives. In each later round data arrives, `steps_per_arrival` steps are taken on the buffer, and the model is
evaluated on the current task with the shots it has by then. A task ends when it is mastered or when its rounds are used
up. One call of the compiled function runs several rounds, and nothing is compiled again from task to task.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from anyshot.adaptation import Loss
from anyshot.errors import InputError
from anyshot.learners import Drawn, Learner
from anyshot.online.borrowing import fill_missing_classes
from anyshot.online.buffer import Buffer, Sizes
from anyshot.online.places import Places
from anyshot.online.protocol import OnlineProtocol
from anyshot.online.stream import HasCapacities, Stream
from anyshot.rounds import all_finite, run_rounds
from anyshot.shots import Shots

# The key of an evaluation draws its shots. Folded with these numbers, it draws the memory, the borrowed datapoints and
# fresh test data.
RECALL, BORROW, TEST = 1, 2, 3
TestSet = tuple[PyTree[Array], PyTree[Array]]  # inputs and labels
Draw = Callable[[Any], tuple[Drawn, Key[Array, ""]]]  # from a step's key, or from what was drawn for it before


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
        expected: what a learner that observes expects of the inputs whose labels arrive next; None for the others.
    """

    learner: PyTree[Any]
    buffer: Buffer
    position: Int[Array, ""]
    round: Int[Array, ""]
    rounds: Int[Array, ""]
    finite: Bool[Array, ""]
    expected: Float[Array, "arriving ..."] | None = None


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

    def start(self, stream: HasCapacities, key: Key[Array, ""]) -> OnlineState:
        """The state before the first round."""
        zero = jnp.zeros((), jnp.int32)
        first = jnp.asarray(self.protocol.pretrain_tasks, jnp.int32)
        learner, expected = self.learner.init(key), None
        if self.learner.observes():
            count = self.protocol.labels_per_arrival
            x, y = (jnp.zeros((count, *leaf.shape), leaf.dtype) for leaf in stream.tasks.example())
            shots = Shots(x, y, jnp.asarray(count))
            shape = jax.eval_shape(lambda: self.learner.expect(learner, shots, shots.x))
            expected = jnp.zeros(shape.shape, shape.dtype)
        return OnlineState(learner, Buffer.empty(stream, self.protocol), first, zero, zero, jnp.asarray(True), expected)

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
        if self.learner.observes():
            before, now = state.buffer.received[state.position], buffer.received[state.position]
            arrived = dataclasses.replace(self.look_ahead(stream, state.position, before), count=now - before)
            observed = self.observe(state.learner, state.expected, arrived)
            state = eqx.tree_at(lambda s: s.learner, state, observed)
        learner, metrics = self.run_updates(
            state.learner, self.update_keys(of_updates), self.drawing(stream, buffer, state.position), learning
        )
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
        expected, test_set = None, stream.test_set(state.position, self.test_key(of_evaluation))
        if self.learner.observes():
            upcoming = self.look_ahead(stream, state.position, buffer.received[state.position]).x
            loss, right, expected = self.evaluate_ahead(learner, adapted_on, test_set, upcoming)
        else:
            loss, right = self.evaluate(learner, adapted_on, test_set)
        mastered = self.masters(loss, right)
        used_up = state.round >= rules.rounds
        ended = ~pretraining & ((mastered & rules.advance) | used_up)
        if self.learner.observes():
            learner = self.end_task(learner, ended)
        finite = jnp.isfinite(loss) & all_finite(learner)
        new = OnlineState(
            learner,
            buffer,
            state.position + ended,
            jnp.where(ended | pretraining, 0, state.round + 1).astype(jnp.int32),
            state.rounds + 1,
            finite,
            expected,
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

    def observe(self, learner: PyTree[Any], expected: Float[Array, "arriving ..."] | None, arrived: Shots) -> Any:
        """The learner's state after it was shown the labels that have arrived, if there are any."""
        assert expected is not None, "the learner observes, so each round leaves what it expects"
        return _change_if(arrived.count > 0, lambda one: self.learner.observe(one, expected, arrived), learner)

    def end_task(self, learner: PyTree[Any], ended: Bool[Array, ""]) -> Any:
        """The learner's state after a round, in which the task may have ended."""
        return _change_if(ended, self.learner.end_task, learner)

    def look_ahead(self, stream: Stream, position: Int[Array, ""], received: Int[Array, ""]) -> Shots:
        """The datapoints of a task that arrive next."""
        return stream.look_up(self.places_ahead(stream.capacity, position, received))

    def places_ahead(self, capacity: int, position: Int[Array, ""], received: Int[Array, ""]) -> Places:
        """Their places; at the end of a task the last one takes the place of those missing."""
        new = received + jnp.arange(self.protocol.labels_per_arrival, dtype=jnp.int32)
        return Places(position, jnp.minimum(new, capacity - 1), jnp.asarray(new.size))

    def update_keys(self, key: Key[Array, ""]) -> Key[Array, " updates"]:
        """The keys of the updates of a round."""
        return jax.random.split(key, self.protocol.steps_per_arrival * self.protocol.updates_per_step)

    def drawing(self, stream: Stream, buffer: Buffer, position: Int[Array, ""]) -> Draw:
        """A function that draws the data of an update from what has been received."""

        def draw(key: Key[Array, ""]) -> tuple[Drawn, Key[Array, ""]]:
            of_draw, of_update = jax.random.split(key)
            return buffer.draw(stream, self.protocol, self.learner.wants, position, of_draw), of_update

        return draw

    def run_updates(
        self, learner: PyTree[Any], steps: PyTree[Array], draw: Draw, learning: Bool[Array, ""]
    ) -> tuple[PyTree[Any], dict[str, Float[Array, ""]]]:
        """Run the updates of a round, if `learning`.

        Args:
            learner: the learner's state.
            steps: what `draw` needs, with a leading axis for the updates.
            draw: gives the data and the key of an update.
            learning: whether there are updates at all.

        Returns:
            The learner's state, and the mean of each metric over the updates (NaN without updates). A learner that
            wants nothing has no updates and no metrics.
        """
        if not self.learner.wants:
            return learner, {}
        arrays, static = eqx.partition(learner, eqx.is_array)

        def update(arrays: PyTree[Any], step: PyTree[Array]) -> tuple[PyTree[Any], dict[str, Float[Array, ""]]]:
            drawn, of_update = draw(step)
            new, metrics = self.learner.update(eqx.combine(arrays, static), drawn, of_update)
            return eqx.filter(new, eqx.is_array), metrics

        def updates(arrays: PyTree[Any]) -> tuple[PyTree[Any], dict[str, Float[Array, ""]]]:
            arrays, metrics = lax.scan(update, arrays, steps)
            return arrays, jax.tree.map(jnp.mean, metrics)

        none = jax.tree.map(
            lambda leaf: jnp.full(leaf.shape, jnp.nan, leaf.dtype), jax.eval_shape(lambda: updates(arrays)[1])
        )
        arrays, metrics = lax.cond(learning, updates, lambda arrays: (arrays, none), arrays)
        return eqx.combine(arrays, static), metrics

    def test_key(self, key: Key[Array, ""]) -> Key[Array, ""] | None:
        """The key that draws fresh test data, from that of an evaluation; None if the test data stays the same."""
        return jax.random.fold_in(key, TEST) if self.protocol.fresh_test else None

    def evaluate(
        self, learner: PyTree[Any], support: Shots, test_set: TestSet
    ) -> tuple[Float[Array, ""], Int[Array, ""]]:
        """The mean loss on the task's test data after adapting to the shots, and the number of right answers."""
        x, y = test_set
        return self.measure(self.learner.predict(learner, support, x), y)

    def evaluate_ahead(
        self, learner: PyTree[Any], support: Shots, test_set: TestSet, upcoming: PyTree[Array]
    ) -> tuple[Float[Array, ""], Int[Array, ""], Float[Array, "arriving ..."]]:
        """As `evaluate`, for a learner that observes; and what it expects of the inputs whose labels arrive next."""
        x, y = test_set
        both = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), x, upcoming)
        expected, rows = self.learner.expect(learner, support, both), y.shape[0]
        return *self.measure(self.learner.combine(learner, support, expected[:rows]), y), expected[rows:]

    def measure(self, outputs: PyTree[Array], y: PyTree[Array]) -> tuple[Float[Array, ""], Int[Array, ""]]:
        """The mean loss of outputs, and the number of right answers."""
        loss = jnp.mean(jax.vmap(self.loss)(outputs, y))
        if not self.classification:
            return loss, jnp.zeros((), jnp.int32)
        return loss, jnp.sum(jnp.argmax(outputs, axis=-1) == y, dtype=jnp.int32)

    def masters(self, loss: Float[Array, ""], right: Int[Array, ""]) -> Bool[Array, ""]:
        """Whether a task with this loss, or so many right answers, is mastered."""
        rules = self.protocol
        # Numbers of right answers are compared, not quotients: rounding must not keep 85 of 100 below 0.85.
        enough = math.ceil(rules.threshold * rules.test_size - 1e-9)
        return right >= enough if rules.measure == "accuracy" else loss <= rules.threshold


def _change_if(condition: Bool[Array, ""], change: Callable[[PyTree[Any]], PyTree[Any]], tree: PyTree[Any]) -> Any:
    """The changed tree if the condition holds, else the tree as it is."""
    arrays, static = eqx.partition(tree, eqx.is_array)
    changed = lax.cond(
        condition,
        lambda arrays: eqx.filter(change(eqx.combine(arrays, static)), eqx.is_array),
        lambda arrays: arrays,
        arrays,
    )
    return eqx.combine(changed, static)
