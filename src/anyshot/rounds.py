"""Many rounds of an experiment in one call of a compiled function, each with a record of what it found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int, PyTree

State = TypeVar("State")
Record = TypeVar("Record")


def run_rounds(
    one_round: Callable[[State], tuple[State, Record]],
    goes_on: Callable[[State], Bool[Array, ""]],
    state: State,
    rounds: Int[Array, ""],
    dispatch: int,
) -> tuple[State, Record, Int[Array, ""]]:
    """Up to `rounds` rounds, as long as `goes_on`.

    >>> count = lambda n: (n + 1, 10 * n)
    >>> state, records, filled = run_rounds(count, lambda n: n < 2, jnp.asarray(0), jnp.asarray(3), dispatch=4)
    >>> print(state, records, filled)
    2 [ 0 10  0  0] 2

    Returns:
        the state, records with a leading axis of length `dispatch`, and how many of them are filled.
    """
    shape = jax.eval_shape(lambda: one_round(state)[1])
    arrays, static = eqx.partition(state, eqx.is_array)  # a model may hold functions, which no loop can carry
    empty = jax.tree.map(lambda leaf: jnp.zeros((dispatch, *leaf.shape), leaf.dtype), shape)
    most = jnp.minimum(rounds, dispatch)

    def unfinished(carry: Any) -> Bool[Array, ""]:
        arrays, _, done = carry
        return (done < most) & goes_on(eqx.combine(arrays, static))

    def one(carry: Any) -> Any:
        arrays, records, done = carry
        new, record = one_round(eqx.combine(arrays, static))
        records = jax.tree.map(lambda all_, one: all_.at[done].set(one), records, record)
        return eqx.filter(new, eqx.is_array), records, done + 1

    arrays, records, done = lax.while_loop(unfinished, one, (arrays, empty, jnp.zeros((), jnp.int32)))
    return eqx.combine(arrays, static), records, done


def all_finite(tree: PyTree[Any]) -> Bool[Array, ""]:
    """Whether every number in it is finite.

    >>> print(all_finite({"a": jnp.array([1.0, jnp.inf])}))
    False
    """
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))
    return jnp.all(jnp.stack([jnp.asarray(True), *(jnp.all(jnp.isfinite(leaf)) for leaf in leaves)]))
