"""The paper's network for 28x28 images (appendix D): four convolutions and a linear head."""

from __future__ import annotations

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int, Key, Shaped

from anyshot.networks.layers import Convolution, Linear, as_float, leaky_relu
from anyshot.networks.patches import out_size


class Conv4(eqx.Module):
    """Four 3x3 convolutions of 32 channels with leaky ReLU, then a linear layer to the outputs.

    Args:
        image: height, width and channels of the images.
        outputs: number of classes, or of targets.
        channels: of every convolution.
        stride: 2 as in MAML's Omniglot network, or 1 (the paper does not say).
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
        *,
        key: Key[Array, ""],
    ):
        height, width, fan_in = image
        keys = jax.random.split(key, 5)
        layers = []
        for layer_key in keys[:4]:
            layers.append(Convolution(fan_in, channels, stride, key=layer_key))
            height, width, fan_in = out_size(height, stride), out_size(width, stride), channels
        self.convolutions = tuple(layers)
        self.head = Linear(height * width * channels, outputs, key=keys[4])

    def __call__(self, image: Shaped[Array, "h w c"]) -> Float[Array, " outputs"]:
        """Logits (or predictions) for one image."""
        return self.for_shots(image[None])[0]

    def for_shots(
        self, images: Shaped[Array, "n h w c"], count: Int[Array, ""] | None = None
    ) -> Float[Array, "n outputs"]:
        """Those of many images, of which only the first `count` matter: a GPU leaves the others out."""
        h = as_float(images)
        for convolution in self.convolutions:
            h = leaky_relu(convolution.for_shots(h, count))
        return jax.vmap(self.head)(h.reshape(h.shape[0], -1))
