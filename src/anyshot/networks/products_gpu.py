"""What the kernels of products in TF32 share: pixels as rows of a matrix, and a product of float32's accuracy."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.pallas import triton
from jaxtyping import Array

from anyshot.networks.tiles_gpu import Index, Ref, below, unravel, within

Factors: TypeAlias = tuple[Array, Array]


def load_patches(
    x_ref: Ref, task: Index, row: Array, rows: Index, first: Index, count: int, stride: int, size: Sequence[int]
) -> Array:
    """Rows (example, output pixel) below `rows` of the matrix of patches; of its columns `count` from `first` on."""
    *_, height, width, channels = x_ref.shape
    example, i, j = (part[:, None] for part in unravel(row, *size))
    column = first + lax.iota(jnp.int32, count)
    tap_row, tap_column, channel = unravel(column, 3, channels)
    if channels % count == 0:  # all of one tap: scalars, which spare arithmetic per column
        tap_row, tap_column, _ = unravel(first, 3, channels)
    y, x = stride * i + (tap_row - 1), stride * j + (tap_column - 1)
    inside = (row < rows)[:, None] & within(y, height) & within(x, width) & below(column, 9 * channels)[None, :]
    return triton.load(x_ref.at[task, example, y, x, channel[None, :]], mask=inside, other=0.0)


def multiply_add(
    total: Array, left: Array, right: Array, contracted: tuple[int, int], half: bool, interpret: bool
) -> Array:
    """Add a product on tensor cores that take TF32, the 11 leading bits of a float32; to float32's accuracy or not."""
    # Each factor is split into these bits and an exact rest; the product of the rests is beneath rounding. Triton's own
    # three TF32 products take 10% longer, six of bfloat16 10-40%, float32 arithmetic up to four times as long. The
    # total stays outside the tensor cores, which truncate their sums (the error would be 2e-6).
    dot = functools.partial(lax.dot_general, dimension_numbers=(((contracted[0],), (contracted[1],)), ((), ())))
    if half:
        left, right = (_leading(factor, rounded=True) for factor in (left, right))
    if interpret:
        return total + dot(left, right, precision=lax.Precision.HIGHEST)
    dot = functools.partial(dot, precision=lax.DotAlgorithmPreset.TF32_TF32_F32)
    if half:
        return total + dot(left, right)
    a, b = (_leading(factor, rounded=False) for factor in (left, right))
    return total + (dot(left - a, b) + dot(a, right - b) + dot(a, b))


def _leading(factor: Array, rounded: bool) -> Array:
    """The 11 leading bits: those of the nearest such number, ties to even, or those that there are."""
    bits = lax.bitcast_convert_type(factor, jnp.int32)
    if rounded:
        bits += np.int32((1 << 12) - 1) + (lax.shift_right_logical(bits, np.int32(13)) & np.int32(1))
    leading = lax.bitcast_convert_type(bits & np.int32(-(1 << 13)), jnp.float32)
    return jnp.where(factor == factor, leading, factor) if rounded else leading  # the sum above overflows on some NaN


def prefetched(loads: Sequence[Callable[[], Factors]], depth: int) -> Iterator[Factors]:
    """What the loads return, each started `depth` products before its turn, to hide the memory's latency."""
    started = [load() for load in loads[:depth]]
    for load in loads[depth:]:
        started.append(load())
        yield started.pop(0)
    yield from started
