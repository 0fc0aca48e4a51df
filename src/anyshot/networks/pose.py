"""A regressor for the orientation of an object in a grey 128x128 image."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, Shaped

from anyshot.networks.conv4 import Conv4
from anyshot.networks.layers import as_float


class PoseRegressor(eqx.Module):
    """The mean of every 2x2 pixels (128x128 becomes 64x64), then the Rainbow MNIST network with the targets as outputs.

    The paper does not describe its pose network. At full size the first layer's activations alone are most of a step,
    20 ms of memory traffic on an H200 with 25 tasks; an orientation can be seen at half the size.

    Args:
        side: height and width of the images.
        targets: numbers to predict.
        channels: of every convolution.
        stride: 2 or 1.
        key: draws the initial weights.

    >>> net = PoseRegressor(side=32, key=jax.random.key(0))
    >>> print(net(jnp.zeros((32, 32))).shape)
    (1,)
    """

    halved: Conv4

    def __init__(self, side: int = 128, targets: int = 1, channels: int = 32, stride: int = 2, *, key: Key[Array, ""]):
        half = (side + 1) // 2
        self.halved = Conv4((half, half, 1), targets, channels, stride, key=key)

    def __call__(self, image: Shaped[Array, "side side"]) -> Float[Array, " targets"]:
        """The prediction for one grey image."""
        return self.for_shots(image[None])[0]

    def for_shots(
        self, images: Shaped[Array, "n side side"], count: Int[Array, ""] | None = None
    ) -> Float[Array, "n targets"]:
        """Those for many images, of which only the first `count` matter."""
        return self.halved.for_shots(jax.vmap(halve)(as_float(images))[..., None], count)


def halve(image: Float[Array, "h w"]) -> Float[Array, "i j"]:
    """The mean of every 2x2 pixels; the last row and column of an odd size count twice.

    >>> print(halve(jnp.arange(9.0).reshape(3, 3)))
    [[2.  3.5]
     [6.5 8. ]]
    """
    height, width = image.shape
    even = jnp.pad(image, ((0, height % 2), (0, width % 2)), mode="edge")
    return even.reshape((height + 1) // 2, 2, (width + 1) // 2, 2).mean((1, 3))
