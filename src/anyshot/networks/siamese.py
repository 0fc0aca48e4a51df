"""The paper's network for pairs of images (appendix D.3): are reference and query of the same class?"""

from __future__ import annotations

from collections.abc import Sequence

import jax
from jaxtyping import Array, Float, Int, Key, Shaped

from anyshot.errors import InputError
from anyshot.networks.batched import Batched
from anyshot.networks.bias import add_bias
from anyshot.networks.convolution import convolve
from anyshot.networks.layers import Convolution, Linear, as_float, leaky_relu, max_pool
from anyshot.networks.rectified import convolve_and_rectify
from anyshot.networks.sizes import check_convolutions, check_shape

COLOURS = 3
Trunk = tuple[tuple[Convolution, Convolution], tuple[Convolution, Convolution]]


class Siamese(Batched):
    """One trunk for both images (2 convolutions, pool, 2 convolutions, pool), both embeddings joined, a linear layer.

    Args:
        image: height, width and channels of each image of a pair.
        outputs: number of logits.
        channels: of every convolution.
        precision: of the convolutions' products, "float32" or "half".
        key: draws the initial weights.

    >>> import jax.numpy as jnp
    >>> net = Siamese((12, 12, 3), channels=4, key=jax.random.key(0))
    >>> print(net(jnp.zeros((2, 12, 12, 3))).shape)  # a pair: reference, query
    (2,)
    """

    trunk: Trunk
    head: Linear

    def __init__(
        self,
        image: tuple[int, int, int] = (84, 84, 3),
        outputs: int = 2,
        channels: int = 64,
        precision: str = "float32",
        *,
        key: Key[Array, ""],
    ):
        height, width, channels_in = image
        *of_trunk, of_head = jax.random.split(key, 5)
        self.trunk = make_trunk("siamese", image, channels_in, channels, precision, of_trunk)
        embedding = (height // 4) * (width // 4) * channels
        self.head = Linear(2 * embedding, outputs, key=of_head)

    def for_shots(
        self, x: Shaped[Array, "n 2 h w c"], count: Int[Array, ""] | None = None
    ) -> Float[Array, "n outputs"]:
        """Logits for many ordered pairs (reference, query), of which only the first `count` matter."""
        images = as_float(x).reshape(-1, *x.shape[2:])
        h = apply_trunk(self.trunk, images, None if count is None else 2 * count)
        return jax.vmap(self.head)(h.reshape(x.shape[0], -1))


def make_trunk(
    name: str,
    image: tuple[int, int, int],
    channels_in: int,
    channels: int,
    precision: str,
    keys: Sequence[Key[Array, ""]],
) -> Trunk:
    """Two convolutions and two more, with random weights; a network of this name pools after each two."""
    check_convolutions(channels, precision=precision)
    if min(image[:2]) < 4:
        raise InputError(f"{name} pools twice and needs images of at least 4x4 pixels, got {image[0]}x{image[1]}")
    first, *others = (
        Convolution(fan_in, channels, 1, precision, key=key)
        for fan_in, key in zip((channels_in, channels, channels, channels), keys, strict=True)
    )
    return (first, others[0]), (others[1], others[2])


def apply_trunk(
    trunk: Trunk, h: Float[Array, "n h w c"], count: Int[Array, ""] | None
) -> Float[Array, "n i j channels"]:
    """The convolutions with leaky ReLU, and a pool after each two, for many images, of which `count` matter."""
    for first, second in trunk:
        h = _rectified(first, h, count)
        # Bias and leaky ReLU keep the order of numbers, so the maximum may come before them: they see a quarter of it.
        largest = jax.vmap(max_pool)(convolve(h, second.weight, second.stride, count, second.precision))
        h = leaky_relu(add_bias(largest, second.bias))
    return h


def _rectified(layer: Convolution, h: Float[Array, "n h w c"], count: Int[Array, ""] | None) -> Float[Array, "n h w o"]:
    # One operation where that was measured to be faster: from colours, on a GPU (84x84 and 42x42 pixels).
    if jax.default_backend() == "gpu" and h.shape[-1] == COLOURS:
        return convolve_and_rectify(h, layer.weight, layer.bias, count, layer.precision)
    return leaky_relu(layer.for_shots(h, count))


def make_siamese(
    shape: tuple[int, ...], outputs: int, *, key: Key[Array, ""], channels: int = 64, precision: str = "float32"
) -> Siamese:
    """Siamese for pairs of images, shape (2, height, width, channels).

    Args:
        shape: of one pair.
        outputs: number of logits.
        key: draws the initial weights.
        channels: of every convolution.
        precision: of the convolutions' products, "float32" or "half".
    """
    check_shape("siamese", shape, "2, height, width, channels")
    return Siamese((shape[1], shape[2], shape[3]), outputs, channels, precision, key=key)
