"""A network that sees both images of a pair at once, stacked along their channels."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, Shaped

from anyshot.networks.batched import Batched
from anyshot.networks.layers import Linear, as_float
from anyshot.networks.siamese import Trunk, apply_trunk, make_trunk
from anyshot.networks.sizes import check_shape


class StackedPairs(Batched):
    """The layers of `Siamese` on both images as one with twice the channels, so that its convolutions compare them.

    A linear layer on two joined embeddings adds up what it sees in each image, and cannot compare them.

    Args:
        image: height, width and channels of each image of a pair.
        outputs: number of logits.
        channels: of every convolution.
        precision: of the convolutions' products, "float32" or "half".
        key: draws the initial weights.

    >>> net = StackedPairs((12, 12, 3), channels=4, key=jax.random.key(0))
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
        self.trunk = make_trunk("stacked", image, 2 * channels_in, channels, precision, of_trunk)
        self.head = Linear((height // 4) * (width // 4) * channels, outputs, key=of_head)

    def for_shots(
        self, x: Shaped[Array, "n 2 h w c"], count: Int[Array, ""] | None = None
    ) -> Float[Array, "n outputs"]:
        """Logits for many ordered pairs (reference, query), of which only the first `count` matter."""
        h = apply_trunk(self.trunk, jnp.concatenate([as_float(x[:, 0]), as_float(x[:, 1])], axis=-1), count)
        return jax.vmap(self.head)(h.reshape(x.shape[0], -1))


def make_stacked(
    shape: tuple[int, ...], outputs: int, *, key: Key[Array, ""], channels: int = 64, precision: str = "float32"
) -> StackedPairs:
    """StackedPairs for pairs of images, shape (2, height, width, channels).

    Args:
        shape: of one pair.
        outputs: number of logits.
        key: draws the initial weights.
        channels: of every convolution.
        precision: of the convolutions' products, "float32" or "half".
    """
    check_shape("stacked", shape, "2, height, width, channels")
    return StackedPairs((shape[1], shape[2], shape[3]), outputs, channels, precision, key=key)
