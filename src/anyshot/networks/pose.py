"""A regressor for the orientation of an object in a grey 128x128 image."""

from __future__ import annotations

import equinox as eqx
import jax
from jaxtyping import Array, Float, Key, Shaped

from anyshot.networks.layers import Convolution, Linear, as_float, leaky_relu
from anyshot.networks.patches import out_size


class PoseRegressor(eqx.Module):
    """Five 3x3 convolutions of stride 2 with leaky ReLU (128x128 becomes 4x4), then a linear layer to the targets.

    The paper does not describe its pose network; this one continues its Rainbow MNIST network to larger images.

    Args:
        side: height and width of the images.
        targets: numbers to predict.
        channels: of every convolution.
        key: draws the initial weights.

    >>> import jax.numpy as jnp
    >>> net = PoseRegressor(side=32, key=jax.random.key(0))
    >>> print(net(jnp.zeros((32, 32))).shape)
    (1,)
    """

    convolutions: tuple[Convolution, ...]
    head: Linear

    def __init__(self, side: int = 128, targets: int = 1, channels: int = 32, *, key: Key[Array, ""]):
        keys = jax.random.split(key, 6)
        fan_in = [1, *[channels] * 4]
        self.convolutions = tuple(
            Convolution(size, channels, 2, key=layer_key) for size, layer_key in zip(fan_in, keys[:5], strict=True)
        )
        for _ in self.convolutions:
            side = out_size(side, 2)
        self.head = Linear(side * side * channels, targets, key=keys[5])

    def __call__(self, image: Shaped[Array, "side side"]) -> Float[Array, " targets"]:
        """The prediction for one grey image."""
        h = as_float(image)[..., None]
        for convolution in self.convolutions:
            h = leaky_relu(convolution(h))
        return self.head(h.reshape(-1))
