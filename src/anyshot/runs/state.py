"""The state of a run as named arrays, and back."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from anyshot.errors import RunError


def state_arrays(state: PyTree[Any]) -> dict[str, np.ndarray]:
    """Every array of the state, by its path in it."""
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(state, eqx.is_array))
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def restore_state(state: PyTree[Any], arrays: dict[str, np.ndarray]) -> PyTree[Any]:
    """The state with the arrays that were saved. They must have the names, shapes and dtypes of its own."""
    ours = {name: (array.shape, array.dtype) for name, array in state_arrays(state).items()}
    saved = {name: (array.shape, array.dtype) for name, array in arrays.items()}
    if ours != saved:
        name = min(name for name in ours.keys() | saved.keys() if ours.get(name) != saved.get(name))
        shown = [f"{found[name][1]}{list(found[name][0])}" if name in found else "missing" for found in (saved, ours)]
        raise RunError(
            f"the checkpoint does not fit: {name} is {shown[0]} there and {shown[1]} here; use the versions that "
            "environment.json names, and the same jax_enable_x64"
        )

    def saved_leaf(path: Any, leaf: Any) -> Any:
        return jnp.asarray(arrays[jax.tree_util.keystr(path)]) if eqx.is_array(leaf) else leaf

    return jax.tree_util.tree_map_with_path(saved_leaf, state)
