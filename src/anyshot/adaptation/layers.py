"""The layers of a model, of which the first may be left as they are when it adapts."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
from jaxtyping import PyTree

from anyshot.errors import InputError


def mark_adapted(model: PyTree[Any], fixed_layers: int) -> PyTree[bool]:
    """Whether each floating-point array of a model is adapted: all but those of the first `fixed_layers` layers.

    A layer is what holds arrays together, such as a weight and a bias. Layers are in the order of the model's fields.

    >>> import jax.numpy as jnp
    >>> from anyshot.networks import MLP
    >>> marks = mark_adapted(MLP((2, 4, 4, 1), key=jax.random.key(0)), fixed_layers=2)
    >>> print([layer.weight for layer in marks.layers])
    [False, False, True]
    """
    parameters = eqx.filter(model, eqx.is_inexact_array)
    layers = list(dict.fromkeys(path[:-1] for path, _ in jax.tree_util.tree_leaves_with_path(parameters)))
    if fixed_layers >= max(1, len(layers)):
        raise InputError(
            f"fixed_layers must leave a layer that adapts: the model has {len(layers)} layers, got {fixed_layers}"
        )
    fixed = set(layers[:fixed_layers])
    return jax.tree_util.tree_map_with_path(lambda path, _: path[:-1] not in fixed, parameters)
