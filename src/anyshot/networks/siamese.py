"""The paper's network for pairs of images (appendix D.3): are reference and query of the same class?"""

from __future__ import annotations

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int, Key, Shaped

from anyshot.networks.layers import Convolution, Linear, as_float, leaky_relu, max_pool


class Siamese(eqx.Module):
    """One trunk for both images (2 convolutions, pool, 2 convolutions, pool), both embeddings joined, a linear layer.

    Args:
        image: height, width and channels of each image of a pair.
        outputs: number of logits.
        channels: of every convolution.
        key: draws the initial weights.

    >>> import jax.numpy as jnp
    >>> net = Siamese((12, 12, 3), channels=4, key=jax.random.key(0))
    >>> print(net(jnp.zeros((2, 12, 12, 3))).shape)  # a pair: reference, query
    (2,)
    """

    trunk: tuple[tuple[Convolution, Convolution], tuple[Convolution, Convolution]]
    head: Linear

    def __init__(
        self,
        image: tuple[int, int, int] = (84, 84, 3),
        outputs: int = 2,
        channels: int = 64,
        *,
        key: Key[Array, ""],
    ):
        keys = jax.random.split(key, 5)
        height, width, channels_in = image
        self.trunk = (
            (Convolution(channels_in, channels, key=keys[0]), Convolution(channels, channels, key=keys[1])),
            (Convolution(channels, channels, key=keys[2]), Convolution(channels, channels, key=keys[3])),
        )
        embedding = (height // 4) * (width // 4) * channels
        self.head = Linear(2 * embedding, outputs, key=keys[4])

    def __call__(self, pair: Shaped[Array, "2 h w c"]) -> Float[Array, " outputs"]:
        """Logits for one ordered pair (reference, query)."""
        return self.for_shots(pair[None])[0]

    def for_shots(
        self, pairs: Shaped[Array, "n 2 h w c"], count: Int[Array, ""] | None = None
    ) -> Float[Array, "n outputs"]:
        """Those of many pairs, of which only the first `count` matter: a GPU leaves the others out."""
        h = as_float(pairs).reshape(-1, *pairs.shape[2:])
        for block in self.trunk:
            for convolution in block:
                h = leaky_relu(convolution.for_shots(h, None if count is None else 2 * count))
            h = jax.vmap(max_pool)(h)
        return jax.vmap(self.head)(h.reshape(pairs.shape[0], -1))
