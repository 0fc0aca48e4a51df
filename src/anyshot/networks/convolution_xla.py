"""The three operations of `convolution` by what XLA has on every platform, padding included.

For a batch of tasks with weights of their own they are matrix products on patches. A task alone needs no patches: XLA
hands it to the platform's own convolution; and so it is with large images, one task after another, as the patches of
all would take nine times the memory of the images.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.export import is_symbolic_dim
from jaxtyping import Array, Float

from anyshot.networks.patches import KERNEL, fold, fold_by_class, out_size, unfold, unfold_by_sides

LARGE = 2**28  # numbers in the patches of all tasks, 1 GB


class Patches(NamedTuple):
    """A way to unfold images into patches, and its adjoint."""

    unfold: Callable[[Float[Array, "n h w c"], int], Float[Array, "n i j k"]]
    fold: Callable[[Float[Array, "n i j k"], int, int, int], Float[Array, "n h w c"]]


def convolve_by_patches(x: Array, weight: Array, count: Array, *, stride: int, patches: Patches) -> Array:
    """Convolve each task's images with its weights."""
    tasks, n, height, width, _ = x.shape
    rows = _rows(x, stride, patches)
    return _matmul(rows, jnp.swapaxes(weight, 1, 2)).reshape(
        tasks, n, out_size(height, stride), out_size(width, stride), weight.shape[1]
    )


def convolve_input_gradient_by_patches(
    g: Array, weight: Array, count: Array, *, stride: int, height: int, width: int, patches: Patches
) -> Array:
    """The adjoint of `convolve_by_patches` in x."""
    tasks, n, down, across, outputs = g.shape
    rows = _matmul(g.reshape(tasks, -1, outputs), weight)
    folded = patches.fold(rows.reshape(tasks * n, down, across, -1), stride, height, width)
    return folded.reshape(tasks, n, height, width, -1)


def convolve_weight_gradient_by_patches(x: Array, g: Array, count: Array, *, stride: int, patches: Patches) -> Array:
    """The adjoint of `convolve_by_patches` in weight."""
    by_row, rows = g.reshape(g.shape[0], -1, g.shape[-1]), _rows(x, stride, patches)
    if rows.shape[2] < by_row.shape[2]:  # a CPU takes half the time if the shorter side is in front
        # Behind a barrier the turned patches of a network's input, the same in every inner step, are made only once.
        turned = lax.optimization_barrier(jnp.swapaxes(rows, 1, 2))
        return jnp.swapaxes(_matmul(turned, by_row), 1, 2)
    return _matmul(jnp.swapaxes(by_row, 1, 2), rows)


def _rows(x: Array, stride: int, patches: Patches) -> Array:
    """All patches of a task as the rows of one matrix."""
    tasks, n, height, width, channels = x.shape
    return patches.unfold(x.reshape(tasks * n, height, width, channels), stride).reshape(
        tasks, -1, KERNEL**2 * channels
    )


def _matmul(a: Array, b: Array) -> Array:
    # Precision: a GPU would otherwise round float32 factors to 11 bits, which five inner steps amplify (see docs).
    product = functools.partial(jnp.matmul, precision=lax.Precision.HIGHEST)
    # XLA's CPU compiler has its fastest kernels for plain matrices, so a lone task must not look like a batch.
    return product(a[0], b[0])[None] if a.shape[0] == 1 else product(a, b)


PLAIN = Patches(unfold, fold)
FOR_CPU = Patches(unfold_by_sides, fold_by_class)


# By the platform's own convolution.


def convolve(x: Array, weight: Array, count: Array, *, stride: int) -> Array:
    """Convolve each task's images with its weights."""
    by_patches = functools.partial(convolve_by_patches, stride=stride, patches=PLAIN)
    return _task_by_task(functools.partial(_convolve_one, stride=stride), by_patches, x, weight, count)


def convolve_input_gradient(g: Array, weight: Array, count: Array, *, stride: int, height: int, width: int) -> Array:
    """The adjoint of `convolve` in x."""

    def of_one(g: Array, weight: Array) -> Array:
        shape = (g.shape[0], height, width, weight.shape[1] // KERNEL**2)
        return _adjoint(lambda x: _convolve_one(x, weight, stride), shape, g)

    by_patches = functools.partial(
        convolve_input_gradient_by_patches, stride=stride, height=height, width=width, patches=PLAIN
    )
    return _task_by_task(of_one, by_patches, g, weight, count)


def convolve_weight_gradient(x: Array, g: Array, count: Array, *, stride: int) -> Array:
    """The adjoint of `convolve` in weight."""

    def of_one(x: Array, g: Array) -> Array:
        shape = (g.shape[-1], KERNEL**2 * x.shape[-1])
        return _adjoint(lambda weight: _convolve_one(x, weight, stride), shape, g)

    by_patches = functools.partial(convolve_weight_gradient_by_patches, stride=stride, patches=PLAIN)
    return _task_by_task(of_one, by_patches, x, g, count)


def _task_by_task(
    of_one: Callable[[Array, Array], Array], of_all: Callable[..., Array], first: Array, second: Array, count: Array
) -> Array:
    if any(map(is_symbolic_dim, first.shape)):
        return of_all(first, second, count)
    if first.shape[0] == 1:
        return of_one(first[0], second[0])[None]
    if KERNEL**2 * first.size < LARGE:
        return of_all(first, second, count)
    return lax.map(lambda task: of_one(*task), (first, second))


def _convolve_one(x: Array, weight: Array, stride: int) -> Array:
    kernel = jnp.moveaxis(weight.reshape(weight.shape[0], KERNEL, KERNEL, -1), 0, -1)
    return lax.conv_general_dilated(
        x, kernel, (stride, stride), ((1, 1), (1, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC"),
        precision=lax.Precision.HIGHEST,
    )  # fmt: skip


def _adjoint(linear: Callable[[Array], Array], shape: tuple[int, ...], g: Array) -> Array:
    found: tuple[Array] = jax.linear_transpose(linear, jax.ShapeDtypeStruct(shape, g.dtype))(g)
    return found[0]
