"""The three operations of `convolution` by what XLA has on every platform: matrix products on patches, with padding.

Patches take nine times the memory of the images they are of. So those of large images are made for some of a task's
images at a time, which takes no longer (40 images of 84x84x64 on an H200: 5.0 ms in one or in eight parts). XLA's own
convolution is no way out: without its autotuner, which would make runs differ (`compiler_options`), it takes 43 ms
there, and 210 ms for the gradient of the weights.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.export import is_symbolic_dim
from jaxtyping import Array, Float

from anyshot.networks.patches import KERNEL, fold, fold_by_class, out_size, unfold, unfold_by_sides

LARGE = 2**26  # numbers in patches that are made at a time: 268 MB of float32


class Patches(NamedTuple):
    """A way to unfold images into patches, and its adjoint."""

    unfold: Callable[[Float[Array, "n h w c"], int], Float[Array, "n i j k"]]
    fold: Callable[[Float[Array, "n i j k"], int, int, int], Float[Array, "n h w c"]]


def convolve_by_patches(x: Array, weight: Array, count: Array, *, stride: int, patches: Patches, half: bool) -> Array:
    """Convolve each task's images with its weights."""
    tasks, n, height, width, _ = x.shape
    rows = _rows(x, stride, patches)
    return _matmul(rows, jnp.swapaxes(weight, 1, 2), half).reshape(
        tasks, n, out_size(height, stride), out_size(width, stride), weight.shape[1]
    )


def convolve_input_gradient_by_patches(
    g: Array, weight: Array, count: Array, *, stride: int, height: int, width: int, patches: Patches, half: bool
) -> Array:
    """The adjoint of `convolve_by_patches` in x."""
    tasks, n, down, across, outputs = g.shape
    rows = _matmul(g.reshape(tasks, -1, outputs), weight, half)
    folded = patches.fold(rows.reshape(tasks * n, down, across, -1), stride, height, width)
    return folded.reshape(tasks, n, height, width, -1)


def convolve_weight_gradient_by_patches(
    x: Array, g: Array, count: Array, *, stride: int, patches: Patches, half: bool
) -> Array:
    """The adjoint of `convolve_by_patches` in weight."""
    by_row, rows = g.reshape(g.shape[0], -1, g.shape[-1]), _rows(x, stride, patches)
    if rows.shape[2] < by_row.shape[2]:  # a CPU takes half the time if the shorter side is in front
        # Behind a barrier the turned patches of a network's input, the same in every inner step, are made only once.
        turned = lax.optimization_barrier(jnp.swapaxes(rows, 1, 2))
        return jnp.swapaxes(_matmul(turned, by_row, half), 1, 2)
    return _matmul(jnp.swapaxes(by_row, 1, 2), rows, half)


def _rows(x: Array, stride: int, patches: Patches) -> Array:
    """All patches of a task as the rows of one matrix."""
    tasks, n, height, width, channels = x.shape
    return patches.unfold(x.reshape(tasks * n, height, width, channels), stride).reshape(
        tasks, -1, KERNEL**2 * channels
    )


def _matmul(a: Array, b: Array, half: bool) -> Array:
    dtype = jnp.result_type(a, b)
    if half and dtype.itemsize > 2:  # numbers of 16 bits have no more than 11 that count
        exponent = np.finfo(dtype).nexp  # float16's would be too small for gradients; the kernels scale them
        a, b = (lax.reduce_precision(factor.astype(dtype), exponent, mantissa_bits=10) for factor in (a, b))
    # Precision: a GPU would otherwise round float32 factors to 11 bits, which five inner steps amplify (see docs).
    product = functools.partial(jnp.matmul, precision=lax.Precision.HIGHEST)
    # XLA's CPU compiler has its fastest kernels for plain matrices, so a lone task must not look like a batch.
    return product(a[0], b[0])[None] if a.shape[0] == 1 else product(a, b)


PLAIN = Patches(unfold, fold)
FOR_CPU = Patches(unfold_by_sides, fold_by_class)


# The same for large images, some at a time.


def convolve(x: Array, weight: Array, count: Array, *, stride: int, half: bool) -> Array:
    """Convolve each task's images with its weights."""

    def of_part(x: Array) -> Array:
        return convolve_by_patches(x, weight, count, stride=stride, patches=PLAIN, half=half)

    parts = _parts(x)
    return of_part(x) if parts == 1 else _join(lax.map(of_part, _part(x, parts)))


def convolve_input_gradient(
    g: Array, weight: Array, count: Array, *, stride: int, height: int, width: int, half: bool
) -> Array:
    """The adjoint of `convolve` in x."""

    def of_part(g: Array) -> Array:
        return convolve_input_gradient_by_patches(
            g, weight, count, stride=stride, height=height, width=width, patches=PLAIN, half=half
        )

    parts = _parts(g)
    return of_part(g) if parts == 1 else _join(lax.map(of_part, _part(g, parts)))


def convolve_weight_gradient(x: Array, g: Array, count: Array, *, stride: int, half: bool) -> Array:
    """The adjoint of `convolve` in weight."""

    def of_part(x: Array, g: Array) -> Array:
        return convolve_weight_gradient_by_patches(x, g, count, stride=stride, patches=PLAIN, half=half)

    parts = _parts(x)
    if parts == 1:
        return of_part(x, g)

    def add(total: Array, part: tuple[Array, Array]) -> tuple[Array, None]:
        return total + of_part(*part), None

    empty = jnp.zeros((x.shape[0], g.shape[-1], KERNEL**2 * x.shape[-1]), x.dtype)
    return lax.scan(add, empty, (_part(x, parts), _part(g, parts)))[0]


def _parts(images: Array) -> int:
    """In how many parts images are computed: a divisor of their number; 1 where it is left open (jax.export)."""
    if any(map(is_symbolic_dim, images.shape)) or images.size == 0:
        return 1
    wanted = -(-(KERNEL**2) * images.size // LARGE)
    return next((parts for parts in range(wanted, images.shape[1]) if images.shape[1] % parts == 0), images.shape[1])


def _part(images: Array, parts: int) -> Array:
    return jnp.moveaxis(images.reshape(images.shape[0], parts, -1, *images.shape[2:]), 1, 0)


def _join(parts: Array) -> Array:
    joined = jnp.moveaxis(parts, 0, 1)
    return joined.reshape(joined.shape[0], -1, *joined.shape[3:])
