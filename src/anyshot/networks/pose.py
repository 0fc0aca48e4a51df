"""A network for grey images, made to predict the orientation of an object in one of 128x128."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, Shaped

from anyshot.networks.batched import Batched
from anyshot.networks.conv4 import Conv4
from anyshot.networks.layers import as_float
from anyshot.networks.sizes import check_shape


class PoseRegressor(Batched):
    """The mean of every 2x2 pixels (128x128 becomes 64x64), then the Rainbow MNIST network with the targets as outputs.

    The paper does not describe its pose network. At full size the first layer's activations alone are most of a step,
    20 ms of memory traffic on an H200 with 25 tasks; an orientation can be seen at half the size.

    Args:
        image: height and width of the images.
        outputs: numbers to predict, or classes.
        channels: of every convolution.
        stride: 2 or 1.
        precision: of the convolutions' products, "float32" or "half".
        key: draws the initial weights.

    >>> net = PoseRegressor((32, 32), key=jax.random.key(0))
    >>> print(net(jnp.zeros((32, 32))).shape)
    (1,)
    """

    halved: Conv4

    def __init__(
        self,
        image: tuple[int, int] = (128, 128),
        outputs: int = 1,
        channels: int = 32,
        stride: int = 2,
        precision: str = "float32",
        *,
        key: Key[Array, ""],
    ):
        height, width = image
        self.halved = Conv4(((height + 1) // 2, (width + 1) // 2, 1), outputs, channels, stride, precision, key=key)

    def for_shots(self, x: Shaped[Array, "n h w"], count: Int[Array, ""] | None = None) -> Float[Array, "n outputs"]:
        """Predictions for many grey images, of which only the first `count` matter."""
        return self.halved.for_shots(jax.vmap(halve)(as_float(x))[..., None], count)


def make_pose(
    shape: tuple[int, ...],
    outputs: int,
    *,
    key: Key[Array, ""],
    channels: int = 32,
    stride: int = 2,
    precision: str = "float32",
) -> PoseRegressor:
    """PoseRegressor for grey images of shape (height, width).

    Args:
        shape: of one image.
        outputs: numbers to predict, or classes.
        key: draws the initial weights.
        channels: of every convolution.
        stride: of every convolution, 1 or 2.
        precision: of the convolutions' products, "float32" or "half".
    """
    check_shape("pose", shape, "height, width")
    height, width = shape
    return PoseRegressor((height, width), outputs, channels, stride, precision, key=key)


def halve(image: Float[Array, "h w"]) -> Float[Array, "i j"]:
    """The mean of every 2x2 pixels; the last row and column of an odd size count twice.

    >>> print(halve(jnp.arange(9.0).reshape(3, 3)))
    [[2.  3.5]
     [6.5 8. ]]
    """
    height, width = image.shape
    even = jnp.pad(image, ((0, height % 2), (0, width % 2)), mode="edge")
    return even.reshape((height + 1) // 2, 2, (width + 1) // 2, 2).mean((1, 3))
