"""The same learner with more outputs."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
from jaxtyping import PyTree


def grow_state(old: PyTree[Any], new: PyTree[Any]) -> PyTree[Any]:
    """Copy what was learned into the first outputs of a larger learner's state.

    Args:
        old: the state so far.
        new: the initial state of the same learner with more outputs. What is new keeps its values.

    >>> import jax.numpy as jnp
    >>> print(grow_state({"b": jnp.array([1.0, 2.0])}, {"b": jnp.zeros(4)})["b"])
    [1. 2. 0. 0.]
    """

    def grown(before: Any, after: Any) -> Any:
        if not eqx.is_array(before) or before.shape == after.shape:
            return before
        return after.at[tuple(slice(size) for size in before.shape)].set(before)

    return jax.tree.map(grown, old, new)
