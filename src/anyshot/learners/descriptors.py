"""Inputs as numbers that a kernel compares: the parts of an input, and how much each part counts.

An image has its edges as one part (`anyshot.learners.oriented_gradients`), and its colours as another if it has three
(`anyshot.learners.colour_histograms`). Each of several images of one input has parts of its own. Other numbers are a
part as they are, one for each array.

Squared distances of two inputs are Σ_p w_p |x_p - z_p|², with the weight of part p in proportion to

    1/n + max(0, 1 - (1 - R²_p) (n - 1) / (n - k - 1)).

Here R²_p is the share of the variance of x_p among the n datapoints that a linear regression on their labels explains,
and k the number of its coefficients; the maximum has the usual adjustment, which is 0 on average where there is nothing
to explain. So with few labels all parts count alike, and with more labels a part that has nothing to do with them, such
as a background, counts little.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from anyshot.learners.colour_histograms import describe_colours
from anyshot.learners.factorise import matmul, solve_positive
from anyshot.learners.oriented_gradients import describe_edges
from anyshot.networks.layers import as_float

LEAST_SIDE = 5  # of what is taken for an image
TINY = 1e-6  # as a share; keeps a regression on one-hot vectors solvable

Parts = list[Float[Array, "n _"]]


def describe(inputs: PyTree[Array]) -> Parts:
    """The parts of each input.

    An array whose last axes are height, width and colours, or height and width, is an image; axes before these count
    several images of one input.

    >>> [part.shape for part in describe(jnp.zeros((3, 28, 28, 3), jnp.uint8))]  # edges, colours
    [(3, 1568), (3, 24)]
    >>> [part.shape for part in describe({"age": jnp.zeros(3), "scan": jnp.zeros((3, 28, 28))})]
    [(3, 1), (3, 1568)]
    """
    return [part for leaf in jax.tree.leaves(inputs) for part in _describe_array(leaf)]


def _describe_array(leaf: Array) -> Parts:
    values = as_float(leaf)
    values = values.astype(jnp.promote_types(values.dtype, jnp.float32))
    n, axes = leaf.shape[0], leaf.shape[1:]
    colours = 1 if len(axes) > 2 and axes[-1] <= 4 else 0
    height_width = axes[-2 - colours : len(axes) - colours]
    if len(height_width) < 2 or min(height_width) < LEAST_SIDE:
        return [values.reshape(n, math.prod(axes))]
    several = values.reshape(n, -1, *height_width, axes[-1] if colours else 1)
    describers = [describe_edges, describe_colours] if several.shape[-1] == 3 else [describe_edges]
    return [describer(several[:, number]) for number in range(several.shape[1]) for describer in describers]


def weigh(
    parts: Parts, targets: Float[Array, "n outputs"], coefficients: int | Int[Array, ""], present: Bool[Array, " n"]
) -> Float[Array, " parts"]:
    """The weight of each part. The weights have the sum 1.

    Args:
        parts: of datapoints.
        targets: their labels; one-hot vectors if they are classes.
        coefficients: k, the number of targets, or of classes that have a datapoint less 1.
        present: which rows are datapoints; the others are padding.

    >>> y, other = jnp.eye(2)[jnp.arange(40) % 2], jnp.sin(jnp.arange(40.0))[:, None]
    >>> print(*(f"{weight:.2f}" for weight in weigh([y, other], y, 1, jnp.full(40, True))))
    0.98 0.02
    """
    if len(parts) == 1:
        return jnp.ones(1)
    targets = targets.astype(jnp.promote_types(targets.dtype, jnp.float32))
    n = jnp.maximum(jnp.sum(present), 1).astype(targets.dtype)
    targets = _centre(targets, present, n)
    gram = matmul(targets.T, targets)
    ridge = TINY * jnp.maximum(jnp.trace(gram), TINY)  # where a class has no datapoint, or targets do not vary

    def relevance(part: Float[Array, "n features"]) -> Float[Array, ""]:
        x = _centre(part.astype(targets.dtype), present, n)
        slopes, total = matmul(targets.T, x), jnp.sum(x**2)
        explained = jnp.sum(slopes * solve_positive(gram + ridge * jnp.eye(len(gram), dtype=gram.dtype), slopes))
        share = explained / jnp.where(total > 0, total, 1)
        adjusted = 1 - (1 - share) * (n - 1) / jnp.maximum(n - coefficients - 1, 1)
        return jnp.where((total > 0) & (n - coefficients > 1), jnp.maximum(adjusted, 0), 0)

    weights = 1 / n + jnp.stack([relevance(part) for part in parts])
    return weights / jnp.sum(weights)


def join(parts: Parts, weights: Float[Array, " parts"]) -> Float[Array, "n features"]:
    """Rows whose squared distances are those of the parts, weighed."""
    scaled = [jnp.sqrt(weight).astype(part.dtype) * part for part, weight in zip(parts, weights, strict=True)]
    return jnp.concatenate(scaled, axis=1)


def _centre(x: Float[Array, "n _"], present: Bool[Array, " n"], n: Float[Array, ""]) -> Float[Array, "n _"]:
    """Each column less its mean over datapoints, all divided by the largest number, so that squares do not overflow."""
    x = jnp.where(present[:, None], x, 0)
    x = jnp.where(present[:, None], x - jnp.sum(x, axis=0) / n, 0)
    largest = jnp.max(jnp.abs(x), initial=0)
    return x / jnp.where(largest > 0, largest, 1)
