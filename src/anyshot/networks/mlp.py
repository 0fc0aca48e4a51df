"""A multi-layer perceptron."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import equinox as eqx
import jax
from jaxtyping import Array, Float, Key, Shaped

from anyshot.errors import InputError
from anyshot.limits import check_whole
from anyshot.networks.layers import Linear, as_float, leaky_relu


class MLP(eqx.Module):
    """Linear layers with leaky ReLU between them; any example is flattened first.

    Args:
        sizes: of the input, the hidden layers and the output, e.g. (1, 40, 40, 1) for MAML's sinusoids.
        key: draws the initial weights.

    >>> import jax.numpy as jnp
    >>> net = MLP((1, 40, 40, 1), key=jax.random.key(0))
    >>> print(net(jnp.array([0.5])).shape)
    (1,)
    """

    layers: tuple[Linear, ...]

    def __init__(self, sizes: Sequence[int], *, key: Key[Array, ""]):
        if len(sizes) < 2 or not all(isinstance(size, int) and size >= 1 for size in sizes):
            raise InputError(
                f"sizes must be the input's and the output's size at least, whole numbers from 1 on, got {tuple(sizes)}"
            )
        keys = jax.random.split(key, len(sizes) - 1)
        self.layers = tuple(Linear(i, o, key=k) for (i, o), k in zip(pairwise(sizes), keys, strict=True))

    def __call__(self, x: Shaped[Array, "..."]) -> Float[Array, " outputs"]:
        """The output for one example."""
        h = as_float(x).reshape(-1)
        for layer in self.layers[:-1]:
            h = leaky_relu(layer(h))
        return self.layers[-1](h)


def make_mlp(shape: tuple[int, ...], outputs: int, *, key: Key[Array, ""], hidden: tuple[int, ...] = (40, 40)) -> MLP:
    """MLP for inputs of any shape; without hidden layers it is a linear model.

    Args:
        shape: of one input.
        outputs: number of classes, or of targets.
        key: draws the initial weights.
        hidden: the widths of the hidden layers.
    """
    if not isinstance(hidden, tuple | list):
        raise InputError(f"hidden must be a list of the widths of hidden layers, got {hidden!r}")
    check_whole("the number of hidden layers", len(hidden), 0, 100)
    for layer, width in enumerate(hidden):
        check_whole(f"hidden[{layer}]", width, 1, 65536)
    return MLP((math.prod(shape), *hidden, outputs), key=key)
