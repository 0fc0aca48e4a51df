"""An estimate of the regret proper: the losses of a run, less those of the best fixed learner in hindsight.

    Regret = sum_t sum_s f_t(U(theta_t, alpha, min{s, M})) - min_theta sum_t sum_s f_t(U(theta, alpha, min{s, M}))

The paper's tables give the first sum. The comparator of the second cannot be computed; it is estimated from above by
the same learner, trained on from its final state on everything the run has received, and then evaluated without
changing, at every point where the run was: same task, same shots, same test data.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Key, PyTree

from anyshot.online.buffer import Buffer
from anyshot.online.loop import OnlineLoop, OnlineState
from anyshot.online.stream import Stream


@eqx.filter_jit
def trained_on(
    loop: OnlineLoop, stream: Stream, state: OnlineState, key: Key[Array, ""], rounds: Int[Array, ""]
) -> PyTree[Any]:
    """The learner after `rounds` rounds of updates on all that the run has received."""
    arrays, static = eqx.partition(state.learner, eqx.is_array)
    last = eqx.tree_at(lambda s: s.position, state, jnp.asarray(stream.positions - 1, jnp.int32))

    def one(number: Int[Array, ""], arrays: PyTree[Any]) -> PyTree[Any]:
        now = eqx.tree_at(lambda s: s.learner, last, eqx.combine(arrays, static))
        learner, _ = loop.learned(stream, now, state.buffer, jax.random.fold_in(key, number), jnp.asarray(True))
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
    """The loss of an unchanging learner wherever the run was evaluated, on the very shots it had there.

    Args:
        loop: the method in its protocol.
        stream: that the run had.
        learner: a state of the method.
        key: of the run.
        position: in the stream, of each evaluation.
        received: labels of the task until then.
        rounds: the evaluation's number in the run, which drew its shots.
    """

    def one(where: tuple[Array, Array, Array]) -> Float[Array, ""]:
        position, received, number = where
        _, of_evaluation = jax.random.split(jax.random.fold_in(key, number))
        counts = jnp.zeros(stream.positions, jnp.int32).at[position].set(received)
        buffer = Buffer(counts, jnp.zeros_like(counts), jnp.zeros((), jnp.int32))
        support = buffer.support(stream, loop.protocol, position, of_evaluation)
        return loop.evaluated(stream, learner, support, position)[0]

    return lax.map(one, (position, received, rounds))
