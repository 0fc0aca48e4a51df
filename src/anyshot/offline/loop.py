"""Meta-training as one compiled function: rounds of updates on training tasks, and trials to validate them.

The state with the best score in a trial is kept, and is tested in the end. Training stops when all steps are used, or
after a number of trials (the patience) without a better score.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from anyshot.adaptation import Loss
from anyshot.errors import InputError
from anyshot.learners import Drawn, Learner
from anyshot.offline.evaluation import try_out
from anyshot.offline.protocol import OfflineProtocol
from anyshot.offline.split import Draw, Split
from anyshot.rounds import all_finite, run_rounds

TRIAL = 0  # all trials use this number to draw their episodes, so that scores differ only because of the model


class OfflineState(eqx.Module):
    """The complete state of training: a run that is saved here and resumed goes on as if nothing had happened.

    Args:
        learner: the learner's state.
        best: the state with the best score in a trial.
        best_score: its score.
        best_round: its round.
        rounds: the number of rounds so far. It determines the random numbers of the next one.
        finite: whether the losses of the last trial and the learner's state are finite.
    """

    learner: PyTree[Any]
    best: PyTree[Any]
    best_score: Float[Array, ""]
    best_round: Int[Array, ""]
    rounds: Int[Array, ""]
    finite: Bool[Array, ""]


class Trained(NamedTuple):
    """The result of one round. Accuracy and loss have a value for each number of shots.

    Accuracy is NaN in a regression. Without validation both are NaN.
    """

    round: Int[Array, ""]
    accuracy: Float[Array, " shots"]
    loss: Float[Array, " shots"]
    score: Float[Array, ""]
    better: Bool[Array, ""]
    ended: Bool[Array, ""]
    metrics: dict[str, Float[Array, ""]]
    rates: dict[str, Float[Array, "..."]]


class OfflineLoop(eqx.Module):
    """Trains a learner under a protocol: `start`, then `run` until it has ended.

    Args:
        learner: the method. It may want nothing but episodes.
        protocol: the rules.
        loss: the loss of one datapoint, a function of (output, label).
        classification: whether labels are classes, so that there is an accuracy.
        dispatch: the largest number of rounds in one call of the compiled function.
    """

    learner: Learner
    protocol: OfflineProtocol = eqx.field(static=True)
    loss: Loss = eqx.field(static=True)
    classification: bool = eqx.field(static=True)
    dispatch: int = eqx.field(static=True, default=20)

    def __check_init__(self) -> None:
        if not self.learner.wants <= {"episodes"}:
            wanted = ", ".join(sorted(self.learner.wants))
            raise InputError(f"offline a learner can want episodes only, but {self.learner.name} wants {wanted}")

    def start(self, split: Split, key: Key[Array, ""]) -> OfflineState:
        """The state before the first round."""
        zero, learner = jnp.zeros((), jnp.int32), self.learner.init(key)
        return OfflineState(
            learner, learner, jnp.full((), -jnp.inf, jnp.result_type(float)), zero, zero, jnp.asarray(True)
        )

    def ended(self, state: OfflineState) -> Bool[Array, ""]:
        """Whether training is over; it is from the beginning for a learner that wants nothing."""
        if not self.learner.wants:
            return jnp.asarray(True)
        stale = state.rounds - state.best_round >= self.protocol.patience
        return (state.rounds >= self.protocol.rounds) | (stale & self.protocol.validates)

    def run(
        self, split: Split, state: OfflineState, key: Key[Array, ""], rounds: Int[Array, ""]
    ) -> tuple[OfflineState, Trained, Int[Array, ""]]:
        """Run up to `rounds` rounds. Stops at the end of training, or at a number that is not finite.

        Returns:
            The state, the records with a leading axis of length `dispatch`, and the number of records that are filled.
        """
        return run_rounds(
            lambda state: self.round(split, state, key),
            lambda state: state.finite & ~self.ended(state),
            state,
            rounds,
            self.dispatch,
        )

    def round(self, split: Split, state: OfflineState, key: Key[Array, ""]) -> tuple[OfflineState, Trained]:
        """Run one round: `steps_per_trial` meta-updates, then a trial."""
        learner, metrics = self.run_updates(split, state.learner, jax.random.fold_in(key, 1 + state.rounds))
        shots = len(self.protocol.test_shots)
        if split.validation is None:
            accuracy, loss = jnp.full(shots, jnp.nan), jnp.full(shots, jnp.nan)
            score = state.best_score
            better = tried_well = jnp.asarray(True)
        else:
            trial, of_trial = Draw.test(split.validation, self.protocol), jax.random.fold_in(key, TRIAL)
            accuracy, loss = try_out(self, trial, learner, of_trial, self.protocol.validation_episodes)
            score = jnp.mean(accuracy if self.classification else -loss)
            # Outputs that are not finite still have an accuracy, so the losses are checked.
            tried_well = jnp.all(jnp.isfinite(loss))
            better = tried_well & (score > state.best_score)
        best = jax.tree.map(
            lambda new, old: jnp.where(better, new, old) if eqx.is_array(new) else new, learner, state.best
        )
        rounds = state.rounds + 1
        new = OfflineState(
            learner,
            best,
            jnp.where(better, score, state.best_score),
            jnp.where(better, rounds, state.best_round),
            rounds,
            all_finite(learner) & tried_well,
        )
        record = Trained(rounds, accuracy, loss, score, better, self.ended(new), metrics, self.learner.rates(learner))
        return new, record

    def run_updates(
        self, split: Split, learner: PyTree[Any], key: Key[Array, ""]
    ) -> tuple[PyTree[Any], dict[str, Float[Array, ""]]]:
        """The learner's state after the updates of a round, and the mean of each metric over them."""
        protocol = self.protocol
        draw = Draw(split.train, protocol, protocol.max_shots, protocol.queries, from_test_rows=False)
        arrays, static = eqx.partition(learner, eqx.is_array)

        def update(arrays: PyTree[Any], key: Key[Array, ""]) -> tuple[PyTree[Any], dict[str, Float[Array, ""]]]:
            of_draw, of_update = jax.random.split(key)
            new, metrics = self.learner.update(
                eqx.combine(arrays, static), Drawn(episodes=draw.training(of_draw)), of_update
            )
            return eqx.filter(new, eqx.is_array), metrics

        arrays, metrics = lax.scan(update, arrays, jax.random.split(key, protocol.steps_per_trial))
        return eqx.combine(arrays, static), jax.tree.map(jnp.mean, metrics)
