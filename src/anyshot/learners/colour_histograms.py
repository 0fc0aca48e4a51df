"""Descriptors of images by their colours: a histogram of brightness, and two of contrasts of colours.

With r, g and b the colours of a pixel, from 0 to 1, the three numbers

    (r + g + b) / 3,   r - g + 1/2   and   b - (r + g) / 2 + 1/2,

cut off at 0 and 1, are counted in eight bins each. A number between the middles of two bins counts for both, in linear
proportion. The descriptor has the square roots of the shares of the pixels, divided by √3, so that its length is 1.
Where things are in the image does not matter. (Contrasts of colours: Swain and Ballard 1991.)
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

BINS = 8


def describe_colours(images: Float[Array, "n height width 3"]) -> Float[Array, "n features"]:
    """The descriptor of each image, of length 1.

    >>> red, blue = jnp.array([1.0, 0.0, 0.0]), jnp.array([0.0, 0.0, 1.0])
    >>> images = jnp.stack([jnp.broadcast_to(colour, (5, 5, 3)) for colour in (red, red, blue)])
    >>> rows = describe_colours(images)
    >>> rows.shape, [round(float(rows[0] @ row), 2) for row in rows]
    ((3, 24), [1.0, 1.0, 0.33])
    """
    red, green, blue = (images[..., colour] for colour in range(3))
    numbers = jnp.stack([(red + green + blue) / 3, red - green + 0.5, blue - (red + green) / 2 + 0.5], axis=-1)
    places = (BINS - 1) * jnp.clip(numbers, 0, 1)
    shares = jnp.mean(jnp.maximum(0, 1 - jnp.abs(places[..., None] - np.arange(BINS))), axis=(1, 2))
    return jnp.sqrt(shares / 3).reshape(images.shape[0], 3 * BINS)
