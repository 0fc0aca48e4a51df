"""Meta-training: rounds of updates on training tasks, each followed by a trial on validation tasks; all compiled.

What did best in a trial is kept, and is what is tested in the end. Training stops when its steps are used up, or when a
number of trials (the patience) brought nothing better.
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
from anyshot.offline.evaluation import tried
from anyshot.offline.plan import Plan
from anyshot.offline.split import Draw, Split
from anyshot.rounds import all_finite, run_rounds

TRIAL = 0  # trials draw the same episodes each time, so that scores differ by the model alone


class OfflineState(eqx.Module):
    """Where training is: all of it, so that saving this and reading it back changes nothing.

    Args:
        learner: the method's state.
        best: the one that did best in a trial.
        best_score: what it reached.
        best_round: when.
        rounds: done so far; draws the next round's random numbers.
        finite: whether every loss of a trial and every number of the learner's state has been finite.
    """

    learner: PyTree[Any]
    best: PyTree[Any]
    best_score: Float[Array, ""]
    best_round: Int[Array, ""]
    rounds: Int[Array, ""]
    finite: Bool[Array, ""]


class Trained(NamedTuple):
    """What one round found; accuracy and loss for each number of shots, NaN without validation tasks."""

    round: Int[Array, ""]
    accuracy: Float[Array, " shots"]
    loss: Float[Array, " shots"]
    score: Float[Array, ""]
    better: Bool[Array, ""]
    ended: Bool[Array, ""]
    metrics: dict[str, Float[Array, ""]]
    rates: dict[str, Float[Array, "..."]]


class OfflineLoop(eqx.Module):
    """A learner in a plan: `start` it, then `run` rounds.

    Args:
        learner: the method; it must want episodes only.
        plan: the rules.
        loss: of one datapoint.
        classification: whether accuracy has a meaning.
        dispatch: rounds in one call of the compiled function, at most.
    """

    learner: Learner
    plan: Plan = eqx.field(static=True)
    loss: Loss = eqx.field(static=True)
    classification: bool = eqx.field(static=True)
    dispatch: int = eqx.field(static=True, default=20)

    def __check_init__(self) -> None:
        if self.learner.wants != frozenset({"episodes"}):
            wanted = ", ".join(sorted(self.learner.wants))
            raise InputError(f"offline there are only episodes to learn from, but the learner wants {wanted}")

    def start(self, split: Split, key: Key[Array, ""]) -> OfflineState:
        """The state before the first round."""
        zero, learner = jnp.zeros((), jnp.int32), self.learner.init(key)
        return OfflineState(
            learner, learner, jnp.full((), -jnp.inf, jnp.result_type(float)), zero, zero, jnp.asarray(True)
        )

    def ended(self, state: OfflineState) -> Bool[Array, ""]:
        """Whether training is over."""
        stale = state.rounds - state.best_round >= self.plan.patience
        return (state.rounds >= self.plan.rounds) | (stale & (self.plan.validation_tasks > 0))

    def run(
        self, split: Split, state: OfflineState, key: Key[Array, ""], rounds: Int[Array, ""]
    ) -> tuple[OfflineState, Trained, Int[Array, ""]]:
        """Up to `rounds` rounds, stopping at the end or at a number that is not finite.

        Returns:
            the state, records with a leading axis of length `dispatch`, and how many of them are filled.
        """
        return run_rounds(
            lambda state: self.round(split, state, key),
            lambda state: state.finite & ~self.ended(state),
            state,
            rounds,
            self.dispatch,
        )

    def round(self, split: Split, state: OfflineState, key: Key[Array, ""]) -> tuple[OfflineState, Trained]:
        """`every` meta-updates, then a trial."""
        learner, metrics = self.learned(split, state.learner, jax.random.fold_in(key, 1 + state.rounds))
        shots = len(self.plan.test_shots)
        if split.validation is None:
            accuracy, loss = jnp.full(shots, jnp.nan), jnp.full(shots, jnp.nan)
            score = state.best_score
            better = tried_well = jnp.asarray(True)
        else:
            trial, of_trial = Draw.test(split.validation, self.plan), jax.random.fold_in(key, TRIAL)
            accuracy, loss = tried(self, trial, learner, of_trial, self.plan.validation_episodes)
            score = jnp.mean(accuracy if self.classification else -loss)
            # Outputs that are not finite have an accuracy all the same, so the losses must tell.
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

    def learned(
        self, split: Split, learner: PyTree[Any], key: Key[Array, ""]
    ) -> tuple[PyTree[Any], dict[str, Float[Array, ""]]]:
        """The learner after a round's updates, and the mean of what they reported."""
        plan = self.plan
        draw = Draw(split.train, plan, plan.max_shots, plan.queries, held=False)
        arrays, static = eqx.partition(learner, eqx.is_array)

        def update(arrays: PyTree[Any], key: Key[Array, ""]) -> tuple[PyTree[Any], dict[str, Float[Array, ""]]]:
            of_draw, of_update = jax.random.split(key)
            new, metrics = self.learner.update(
                eqx.combine(arrays, static), Drawn(episodes=draw.training(of_draw)), of_update
            )
            return eqx.filter(new, eqx.is_array), metrics

        arrays, metrics = lax.scan(update, arrays, jax.random.split(key, plan.every))
        return eqx.combine(arrays, static), jax.tree.map(jnp.mean, metrics)
