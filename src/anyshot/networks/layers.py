"""The layers that the networks are made of."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Key, Shaped

from anyshot.networks.batched import Batched
from anyshot.networks.bias import add_bias
from anyshot.networks.convolution import convolve

SLOPE = 0.01  # of the leaky ReLU; the paper gives none, this is JAX's and PyTorch's


class Convolution(Batched):
    """A 3x3 convolution with padding 1 and a bias."""

    weight: Float[Array, "out k"]
    bias: Float[Array, " out"]
    stride: int = eqx.field(static=True)
    precision: str = eqx.field(static=True)

    def __init__(
        self, channels_in: int, channels_out: int, stride: int = 1, precision: str = "float32", *, key: Key[Array, ""]
    ):
        # He et al. 2015, for rectifiers.
        scale = jnp.sqrt(2 / (9 * channels_in))
        self.weight = scale * jax.random.normal(key, (channels_out, 9 * channels_in))
        self.bias = jnp.zeros(channels_out)
        self.stride, self.precision = stride, precision

    def for_shots(self, x: Float[Array, "n h w in"], count: Int[Array, ""] | None = None) -> Float[Array, "n i j out"]:
        """Convolve images of which only the first `count` matter."""
        return add_bias(convolve(x, self.weight, self.stride, count, self.precision), self.bias)


class Linear(eqx.Module):
    """An affine map."""

    weight: Float[Array, "out in"]
    bias: Float[Array, " out"]

    def __init__(self, size_in: int, size_out: int, *, key: Key[Array, ""]):
        self.weight = jax.random.normal(key, (size_out, size_in)) / jnp.sqrt(size_in)
        self.bias = jnp.zeros(size_out)

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        """Apply the map to one vector."""
        return jnp.matmul(self.weight, x, precision=lax.Precision.HIGHEST) + self.bias  # see convolution.py


def leaky_relu(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """max(x, 0) + slope * min(x, 0)."""
    return jnp.where(x >= 0, x, SLOPE * x)


def as_float(image: Shaped[Array, "..."]) -> Float[Array, "..."]:
    """Images as floats: uint8 in 0..255 becomes 0..1, floats stay as they are."""
    if image.dtype == jnp.uint8:
        return image.astype(float) / 255
    return image


def max_pool(x: Float[Array, "h w c"]) -> Float[Array, "h//2 w//2 c"]:
    """Maximum over 2x2 squares; an odd last row or column is left out. Of equal numbers the first gets the gradient.

    >>> print(max_pool(jnp.arange(8.0).reshape(2, 4, 1)).reshape(-1))
    [5. 7.]
    """
    height, width, channels = x.shape[0] // 2, x.shape[1] // 2, x.shape[2]
    squares = x[: 2 * height, : 2 * width].reshape(height, 2, width, 2, channels)
    columns = _larger(squares[:, 0], squares[:, 1])
    return _larger(columns[:, :, 0], columns[:, :, 1])


def _larger(a: Float[Array, "..."], b: Float[Array, "..."]) -> Float[Array, "..."]:
    # A choice is linear: its derivatives keep one byte a pixel, where those of a maximum keep floats of all four.
    return jnp.where((b > a) | jnp.isnan(b), b, a)
