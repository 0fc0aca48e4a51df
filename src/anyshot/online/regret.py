"""An estimate of the regret: the losses of a run, minus those of the best fixed learner in hindsight.

    Regret = sum_t sum_s f_t(U(theta_t, alpha, min{s, M})) - min_theta sum_t sum_s f_t(U(theta, alpha, min{s, M}))

The paper's tables give the first sum. The minimum in the second sum cannot be computed, so it is estimated from above:
the learner is trained further, from its final state, on everything the run has received. Then it is evaluated, without
further updates, wherever the run was evaluated: same task, same shots, same test data.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Key, PyTree

from anyshot.online.buffer import Buffer, Sizes
from anyshot.online.loop import OnlineLoop, OnlineState, round_keys
from anyshot.online.stream import Stream


@eqx.filter_jit
def train_on(
    loop: OnlineLoop, stream: Stream, state: OnlineState, key: Key[Array, ""], rounds: Int[Array, ""]
) -> PyTree[Any]:
    """The learner's state after `rounds` further rounds of updates on everything that the run has received."""
    arrays, static = eqx.partition(state.learner, eqx.is_array)
    draw = loop.drawing(stream, state.buffer, jnp.asarray(stream.positions - 1, jnp.int32))

    def one(number: Int[Array, ""], arrays: PyTree[Any]) -> PyTree[Any]:
        keys = loop.update_keys(jax.random.fold_in(key, number))
        learner, _ = loop.run_updates(eqx.combine(arrays, static), keys, draw, jnp.asarray(True))
        return eqx.filter(learner, eqx.is_array)

    return eqx.combine(lax.fori_loop(0, rounds, one, arrays), static)


@eqx.filter_jit
def losses_in_hindsight(
    loop: OnlineLoop,
    stream: Stream,
    learner: PyTree[Any],
    key: Key[Array, ""],
    position: Int[Array, " n"],
    received: Int[Array, " n"],
    rounds: Int[Array, " n"],
) -> Float[Array, " n"]:
    """The losses of a fixed learner at the evaluations of a run, with the same shots and test data.

    Args:
        loop: the learner and its protocol.
        stream: the stream of the run.
        learner: the state of the learner.
        key: the key of the run.
        position: the position in the stream, for each evaluation.
        received: the number of datapoints received of the task by then.
        rounds: the number of the round within the run; it determined the shots.
    """

    def one(where: tuple[Array, Array, Array]) -> Float[Array, ""]:
        position, received, number = where
        _, of_evaluation = round_keys(key, number)
        counts = jnp.zeros(stream.positions, jnp.int32).at[position].set(received)
        buffer = Buffer(counts, jnp.zeros_like(counts), jnp.zeros((), jnp.int32))
        all_labels = loop.learner.uses_all_labels
        places = buffer.draw_support(Sizes.of(stream), loop.protocol, position, of_evaluation, all_labels)
        test_set = stream.test_set(position, loop.test_key(of_evaluation))
        return loop.evaluate(learner, stream.look_up(places), test_set)[0]

    return lax.map(one, (position, received, rounds))
