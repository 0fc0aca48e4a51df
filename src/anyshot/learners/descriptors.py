"""Inputs as numbers that a kernel compares: the parts of an input, and how much each part counts.

An image has its edges as one part (`anyshot.learners.oriented_gradients`), and its colours as another if it has three
(`anyshot.learners.colour_histograms`). Each of several images of one input has parts of its own. Other numbers are a
part as they are, one for each array.

Squared distances of two inputs are Σ_p w_p |x_p - z_p|² / s_p², with the weight of part p in proportion to

    1/n + max(0, 1 - (1 - R²_p) (n - 1) / (n - k - 1)).

Here R²_p is the share of the variance of x_p among the n datapoints that a linear regression on their labels explains,
adjusted as usual for the k coefficients of that regression; with n ≤ k + 1 the maximum is taken to be 0. s_p² is the
mean squared distance of two datapoints, so that units do not matter; for a part of an image it is 1, as descriptors of
images have the length 1 and can be compared as they are. So a part that has nothing to do with the labels, such as a
background, counts little once there are labels enough to tell.
"""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped

from anyshot.learners.centre import centre
from anyshot.learners.colour_histograms import describe_colours
from anyshot.learners.factorise import matmul, solve_ridge
from anyshot.learners.oriented_gradients import DIRECTIONS, describe_edges
from anyshot.networks.layers import as_float

LEAST_SIDE, MOST_COLOURS = 5, 4  # of what is taken for an image
MOST_NUMBERS = 2**24  # that edges are made from at a time, one for each pixel, colour and direction; 64 MB
TINY = 1e-6  # as a share; keeps a regression on one-hot vectors solvable


class Part(eqx.Module):
    """One part of several inputs.

    Attributes:
        rows: a row of numbers for each input.
        of_image: whether the rows have the length 1, and are compared as they are.
    """

    rows: Float[Array, "n features"]
    of_image: bool = eqx.field(static=True, default=False)


def describe(inputs: PyTree[Array]) -> list[Part]:
    """The parts of each input.

    An array whose last axes are height, width and colours, or height and width, is an image if it has at least five
    pixels a side; axes before these count several images of one input. More than four numbers along the last axis are
    no colours. Images of bytes are taken from 0..255, others should have numbers from 0 to 1.

    >>> [part.rows.shape for part in describe(jnp.zeros((3, 28, 28, 3), jnp.uint8))]  # edges, colours
    [(3, 1568), (3, 24)]
    >>> [part.rows.shape for part in describe({"age": jnp.zeros(3), "scan": jnp.zeros((3, 28, 28))})]
    [(3, 1), (3, 1568)]
    """
    return [part for leaf in jax.tree.leaves(inputs) for part in _describe_array(leaf)]


def _describe_array(leaf: Array) -> list[Part]:
    n, axes = leaf.shape[0], leaf.shape[1:]
    colours = 1 if len(axes) > 2 and axes[-1] <= MOST_COLOURS else 0
    height_width = axes[-2 - colours : len(axes) - colours]
    if len(height_width) < 2 or min(height_width) < LEAST_SIDE:
        return [Part(_as_numbers(leaf).reshape(n, math.prod(axes)))]
    image = (*height_width, axes[-1] if colours else 1)
    several = math.prod(axes) // math.prod(image)
    kinds = _describe_images(leaf.reshape(n * several, *image))
    apart = [rows.reshape(n, several, rows.shape[1]) for rows in kinds]
    return [Part(rows[:, number], of_image=True) for number in range(several) for rows in apart]


def _describe_images(images: Shaped[Array, "n height width colours"]) -> list[Float[Array, "n _"]]:
    """Their edges, and their colours if there are three; of so many at a time as `MOST_NUMBERS` allows."""
    describers = [describe_edges, describe_colours] if images.shape[-1] == 3 else [describe_edges]

    def describe_some(some: Shaped[Array, "m height width colours"]) -> list[Float[Array, "m _"]]:
        return [describer(_as_numbers(some)) for describer in describers]

    most = max(1, MOST_NUMBERS // (DIRECTIONS * math.prod(images.shape[1:])))
    if len(images) <= most:
        return describe_some(images)
    alone = lax.map(lambda image: describe_some(image[None]), images, batch_size=most)
    return [rows[:, 0] for rows in alone]


def _as_numbers(x: Shaped[Array, "..."]) -> Float[Array, "..."]:
    """Floats of at least 32 bits; those of bytes are from 0 to 1."""
    numbers = as_float(x)
    return numbers.astype(jnp.promote_types(numbers.dtype, jnp.float32))


def weigh(
    parts: list[Part],
    targets: Float[Array, "n outputs"],
    coefficients: int | Int[Array, ""],
    present: Bool[Array, " n"],
) -> Float[Array, " parts"]:
    """√w_p / s_p of each part, where the w_p have the sum 1. For a lone part it is 1.

    Args:
        parts: of datapoints.
        targets: their labels; one-hot vectors if they are classes.
        coefficients: k, the number of targets, or of classes that have a datapoint less 1.
        present: which rows are datapoints; the others are padding.

    >>> y, other = jnp.eye(2)[jnp.arange(40) % 2], jnp.sin(jnp.arange(40.0))[:, None]
    >>> parts = [Part(y, of_image=True), Part(other, of_image=True)]
    >>> print(*(f"{scale**2:.2f}" for scale in weigh(parts, y, 1, jnp.full(40, True))))
    0.98 0.02
    """
    if len(parts) == 1:
        return jnp.ones(1)
    targets = targets.astype(jnp.promote_types(targets.dtype, jnp.float32))
    n = jnp.maximum(jnp.sum(present), 1).astype(targets.dtype)
    targets = _scaled(centre(targets, present)[1], axis=0)[0]
    gram, eye = matmul(targets.T, targets), jnp.eye(targets.shape[1], dtype=targets.dtype)
    inverse = solve_ridge(gram, eye, TINY * jnp.maximum(jnp.trace(gram), TINY))

    def measure(part: Part) -> tuple[Float[Array, ""], Float[Array, ""]]:
        x, largest = _scaled(centre(part.rows.astype(targets.dtype), present)[1], axis=None)
        slopes, total = matmul(targets.T, x), jnp.sum(x**2)
        share = jnp.sum(slopes * matmul(inverse, slopes)) / jnp.where(total > 0, total, 1)
        adjusted = 1 - (1 - share) * (n - 1) / jnp.maximum(n - coefficients - 1, 1)
        relevance = jnp.where((total > 0) & (n - coefficients > 1), jnp.maximum(adjusted, 0), 0)
        spread = jnp.sqrt(2 * total / jnp.maximum(n - 1, 1)) * largest
        return relevance, jnp.ones_like(spread) if part.of_image else jnp.where(spread > 0, spread, 1)

    relevances, spreads = map(jnp.stack, zip(*map(measure, parts), strict=True))
    return jnp.sqrt((1 / n + relevances) / jnp.sum(1 / n + relevances)) / spreads


def join(parts: list[Part], scales: Float[Array, " parts"]) -> Float[Array, "n features"]:
    """Rows whose squared distances are those of the parts, weighed: each part times its scale, by `weigh`."""
    scaled = [scale.astype(part.rows.dtype) * part.rows for part, scale in zip(parts, scales, strict=True)]
    return jnp.concatenate(scaled, axis=1)


def _scaled(x: Float[Array, "n _"], axis: int | None) -> tuple[Float[Array, "n _"], Float[Array, "..."]]:
    """Numbers divided by the largest along an axis, so that squares neither overflow nor vanish; and the largest."""
    largest = jnp.max(jnp.abs(x), axis=axis, initial=0)
    return x / jnp.where(largest > 0, largest, 1), largest
