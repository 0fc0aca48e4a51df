"""Descriptors of images by the directions of their edges: histograms of oriented gradients, blurred.

With g(u) the gradient of the image at pixel u, and e_k one of eight directions, cell c of the descriptor has

    d_ck = √( Σ_u G(u - c) max(0, g(u) · e_k)² ),

with G a Gaussian as wide as a cell, summed over colours. A descriptor is divided by its length. So it hardly changes
when a drawing moves a little, or when its contrast does (Lowe 1999; Dalal and Triggs 2005).
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

DIRECTIONS = 8
MOST_CELLS = 14  # along a side


def describe_edges(images: Float[Array, "n height width colours"]) -> Float[Array, "n features"]:
    """The descriptor of each image, of length 1; zero for an image of one colour."""
    edges = jnp.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
    down, right = edges[:, 2:, 1:-1] - edges[:, :-2, 1:-1], edges[:, 1:-1, 2:] - edges[:, 1:-1, :-2]
    angles = 2 * np.pi * np.arange(DIRECTIONS) / DIRECTIONS
    # Divided by the largest number, squares neither overflow nor vanish, whatever the unit of the image.
    steepest = jnp.max(jnp.maximum(jnp.abs(down), jnp.abs(right)), axis=(1, 2, 3), keepdims=True)
    down, right = (slope / jnp.where(steepest > 0, steepest, 1) for slope in (down, right))
    along = down[..., None] * np.sin(angles) + right[..., None] * np.cos(angles)
    energy = jnp.sum(jnp.maximum(along, 0) ** 2, axis=3)  # of each direction at each pixel
    vertical, horizontal = (_cells(side) for side in images.shape[1:3])
    by_row = jnp.einsum("ch,nhwk->ncwk", vertical, energy, precision=jax.lax.Precision.HIGHEST)
    in_cells = jnp.einsum("dw,ncwk->ncdk", horizontal, by_row, precision=jax.lax.Precision.HIGHEST)
    rows = in_cells.reshape(images.shape[0], math.prod(in_cells.shape[1:]))
    total = jnp.sum(rows, axis=1, keepdims=True)
    return jnp.sqrt(rows / jnp.where(total > 0, total, 1))


def _cells(side: int) -> Float[np.ndarray, "cells side"]:
    """G: how much each pixel counts for each cell, along one axis."""
    cells = min(MOST_CELLS, side)
    width = side / cells
    centres = (np.arange(cells) + 0.5) * width - 0.5
    return np.exp(-0.5 * ((centres[:, None] - np.arange(side)) / width) ** 2).astype(np.float32)
