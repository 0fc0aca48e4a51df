"""The paper's network for 28x28 images (appendix D): four convolutions and a linear head."""

from __future__ import annotations

import jax
from jaxtyping import Array, Float, Int, Key, Shaped

from anyshot.networks.batched import Batched
from anyshot.networks.layers import Convolution, Linear, as_float, leaky_relu
from anyshot.networks.patches import out_size
from anyshot.networks.sizes import check_convolutions, check_shape


class Conv4(Batched):
    """Four 3x3 convolutions of 32 channels with leaky ReLU, then a linear layer to the outputs.

    Args:
        image: height, width and channels of the images.
        outputs: number of classes, or of targets.
        channels: of every convolution.
        stride: 2 as in MAML's Omniglot network, or 1 (the paper does not say).
        precision: of the convolutions' products, "float32" or "half".
        key: draws the initial weights.

    >>> import jax.numpy as jnp
    >>> net = Conv4((28, 28, 3), 10, key=jax.random.key(0))
    >>> print(net(jnp.zeros((28, 28, 3), jnp.uint8)).shape)
    (10,)
    """

    convolutions: tuple[Convolution, ...]
    head: Linear

    def __init__(
        self,
        image: tuple[int, int, int] = (28, 28, 3),
        outputs: int = 10,
        channels: int = 32,
        stride: int = 2,
        precision: str = "float32",
        *,
        key: Key[Array, ""],
    ):
        check_convolutions(channels, stride, precision)
        height, width, fan_in = image
        keys = jax.random.split(key, 5)
        layers = []
        for layer_key in keys[:4]:
            layers.append(Convolution(fan_in, channels, stride, precision, key=layer_key))
            height, width, fan_in = out_size(height, stride), out_size(width, stride), channels
        self.convolutions = tuple(layers)
        self.head = Linear(height * width * channels, outputs, key=keys[4])

    def for_shots(self, x: Shaped[Array, "n h w c"], count: Int[Array, ""] | None = None) -> Float[Array, "n outputs"]:
        """Logits (or predictions) for many images, of which only the first `count` matter."""
        h = as_float(x)
        for convolution in self.convolutions:
            h = leaky_relu(convolution.for_shots(h, count))
        return jax.vmap(self.head)(h.reshape(h.shape[0], -1))


def make_conv4(
    shape: tuple[int, ...],
    outputs: int,
    *,
    key: Key[Array, ""],
    channels: int = 32,
    stride: int = 2,
    precision: str = "float32",
) -> Conv4:
    """Conv4 for images of shape (height, width, channels).

    Args:
        shape: of one image.
        outputs: number of classes, or of targets.
        key: draws the initial weights.
        channels: of every convolution.
        stride: of every convolution, 1 or 2.
        precision: of the convolutions' products, "float32" or "half".
    """
    check_shape("conv4", shape, "height, width, channels")
    height, width, depth = shape
    return Conv4((height, width, depth), outputs, channels, stride, precision, key=key)
