"""Per-task 3x3 convolutions of many channels for NVIDIA GPUs, written with Pallas (Triton): products of half floats.

A tensor core multiplies float16 twice as fast as TF32. So each factor is scaled by a power of two, one for each task,
and split into two float16 numbers: x = (high + low) / scale, to 2**-23 of x or 2**-39 of the task's largest x. The
product of both low parts is beneath rounding, so three products have float32's accuracy (Ootomo and Yokota 2022). What
is split is used several times, in a step and in its derivatives; XLA splits it once. The kernels then only copy and
multiply, and copies of the next tiles run beside the products.

The operations are those of `convolution_gpu` at stride 1, which comes here with channels and sizes that fit.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float, Int

from anyshot.networks.tiles_gpu import Index, Ref, first_of_tile, launched, tile, unravel, within

Count: TypeAlias = Int[Array, " t"]
Pairs: TypeAlias = Sequence[tuple[Array, Array]]  # what an operation is applied to; the results are added
WIDTHS = (32, 64)  # channels that are one tile


class Halves(NamedTuple):
    """Two float16 arrays whose sum is an array divided by a `unit` of each task, which goes by its largest number."""

    high: Array
    low: Array
    largest: Float[Array, " t"]


def fits(rows: int, channels: int, outputs: int, stride: int) -> bool:
    """Whether these kernels are the faster ones for so many output pixels of all tasks, as far as was measured."""
    return stride == 1 and channels in WIDTHS and outputs in WIDTHS and rows >= 2**16


def convolve(pairs: Pairs, count: Count, half: bool = False, *, interpret: bool = False) -> Float[Array, "t n h w o"]:
    """Convolve images (t, n, h, w, c) with each task's weights (t, o, k), and add what several pairs of both give.

    `interpret` runs the kernel's Python on any device, for tests.
    """
    return _convolve([(split(x, count), split(weight)) for x, weight in pairs], count, half, interpret)


def convolve_input_gradient(
    pairs: Pairs, count: Count, half: bool = False, *, interpret: bool = False
) -> Float[Array, "t n h w c"]:
    """The adjoint of `convolve` in x, for pairs of gradients and weights: a convolution with weights turned round."""
    return _convolve([(split(g, count), turn(split(weight))) for g, weight in pairs], count, half, interpret)


def turn(weights: Halves) -> Halves:
    """The weights (t, o, k) of the convolution that is the adjoint of one with these: in, out and taps reversed."""
    tasks, outputs, columns = weights.high.shape

    def turned(half: Array) -> Array:
        taps = half.reshape(tasks, outputs, 9, -1)[:, :, ::-1].transpose(0, 3, 2, 1)
        return taps.reshape(tasks, columns // 9, 9 * outputs)

    return Halves(turned(weights.high), turned(weights.low), weights.largest)


def _convolve(
    pairs: Sequence[tuple[Halves, Halves]], count: Count, half: bool, interpret: bool
) -> Float[Array, "t n h w o"]:
    (tasks, examples, height, width, channels), outputs = pairs[0][0].high.shape, pairs[0][1].high.shape[1]
    rows, row_tile = examples * height * width, 64
    # 40 images of 84x84x64: 184 us. With three stages instead of two 192, with four 278, as fewer programs run side by
    # side; with 128 rows and 8 warps 188, 243 and 237. In TF32 (`convolution_gpu`) 470.

    def kernel(*refs: Ref) -> None:
        *halves, count_ref, y_ref = refs
        row, task = tile(0, row_tile), pl.program_id(1)
        output, channel = lax.iota(jnp.int32, outputs), lax.iota(jnp.int32, channels)
        present = triton.load(count_ref.at[task]) * (height * width)
        empty = jnp.zeros((row_tile, outputs), jnp.float32)

        def multiply(pair: Sequence[Ref]) -> Array:
            *x_halves, x_largest = pair[: len(pair) // 2]
            *w_halves, w_largest = pair[len(pair) // 2 :]

            def add(tap: Array, product: Array) -> Array:
                tap = tap.astype(jnp.int32)  # where 64 bits are the default, a loop counts in them
                pixels = _pixels(x_halves, task, row, present, tap)
                place = (task, output[:, None], (tap * channels + channel)[None, :])
                return _multiply_add(product, pixels, [triton.load(ref.at[place]) for ref in w_halves], (1, 1))

            return lax.fori_loop(0, 9, add, empty) * _load_unit(x_largest, task) * _load_unit(w_largest, task)

        def multiply_all() -> Array:
            return functools.reduce(jnp.add, [multiply(pair) for pair in _split_evenly(halves, len(pairs))])

        product = lax.cond(first_of_tile(0, row_tile) < present, multiply_all, lambda: empty)
        triton.store(y_ref.at[task, row[:, None], output[None, :]], product, mask=(row < rows)[:, None])

    grid = (pl.cdiv(rows, row_tile), tasks)
    call = launched(kernel, (tasks, rows, outputs), grid, 4, interpret, stages=2)
    arrays = [array for pair in pairs for factor in pair for array in _multiplied(factor, half)]
    return call(*arrays, count).reshape(tasks, examples, height, width, outputs)


def convolve_weight_gradient(
    pairs: Pairs, count: Count, half: bool = False, *, interpret: bool = False
) -> Float[Array, "t o k"]:
    """The adjoint of `convolve` in weight, for pairs of images and gradients (t, n, h, w, o)."""
    (tasks, examples, height, width, channels), outputs = pairs[0][0].shape, pairs[0][1].shape[4]
    rows, row_tile = examples * height * width, 32
    # 40 images of 84x84x64: 220 us; with 64 rows a step 263, with three taps a program, which share its gradients, 403
    # to 570. In TF32 (`convolution_gpu`) 624.
    parts = max(1, min(rows // 256, 120 // tasks))

    def kernel(*refs: Ref) -> None:
        *halves, count_ref, weight_ref = refs
        tap, (task, part) = pl.program_id(0), unravel(pl.program_id(1), parts)
        output, channel = lax.iota(jnp.int32, outputs), lax.iota(jnp.int32, channels)
        present = triton.load(count_ref.at[task]) * (height * width)
        steps = lax.div(present + (row_tile * parts - 1), np.int32(row_tile * parts))  # all parts have as much to add

        def multiply(pair: Sequence[Ref]) -> Array:
            *x_halves, x_largest = pair[: len(pair) // 2]
            *g_halves, g_largest = pair[len(pair) // 2 :]

            def add(step: Array, product: Array) -> Array:
                row = (part * steps + step) * row_tile + lax.iota(jnp.int32, row_tile)
                place, exists = (task, row[:, None], output[None, :]), (row < present)[:, None]
                gradients = [triton.load(ref.at[place], mask=exists, other=0.0) for ref in g_halves]
                pixels = _pixels(x_halves, task, row, present, tap)
                return _multiply_add(product, gradients, pixels, (0, 0))

            product = lax.fori_loop(np.int32(0), steps, add, jnp.zeros((outputs, channels), jnp.float32))
            return product * _load_unit(x_largest, task) * _load_unit(g_largest, task)

        product = functools.reduce(jnp.add, [multiply(pair) for pair in _split_evenly(halves, len(pairs))])
        triton.store(weight_ref.at[part, task, output[:, None], (tap * channels + channel)[None, :]], product)

    def by_row(gradients: Halves) -> Halves:  # after the split: `convolve_input_gradient` shares these halves
        high, low = (half.reshape(tasks, rows, outputs) for half in gradients[:2])
        return Halves(high, low, gradients.largest)

    factors = [factor for x, g in pairs for factor in (split(x, count), by_row(split(g, count)))]
    arrays = [array for factor in factors for array in _multiplied(factor, half)]
    call = launched(kernel, (parts, tasks, outputs, 9 * channels), (9, tasks * parts), 4, interpret, stages=3)
    return call(*arrays, count).sum(0)


def split(array: Float[Array, "t ..."], count: Count | None = None) -> Halves:
    """Scale and split an array. Only the first `count` of the second axis matter, if one is given.

    >>> high, low, largest = split(jnp.array([[3.0, 0.75]], jnp.float32))
    >>> print(high.dtype, unit(largest), (high.astype(jnp.float32) + low) * unit(largest))
    float16 [0.00012207] [[3.   0.75]]
    """
    axes, size = tuple(range(1, array.ndim)), jnp.abs(array)
    if count is not None:
        there = jnp.arange(array.shape[1]) < count[:, None]
        size = jnp.where(there.reshape(*there.shape, *[1] * (array.ndim - 2)), size, 0.0)
    largest = size.max(axes)
    # 1 / unit by its bits: XLA would divide in a kernel of its own.
    inverse = np.int32(254 << 23) - lax.bitcast_convert_type(unit(largest), jnp.int32)
    scaled = array * lax.bitcast_convert_type(inverse, jnp.float32).reshape(-1, *[1] * len(axes))
    # Not a conversion there and back: XLA takes that for no change at all, and the low half would be zero.
    high = lax.reduce_precision(scaled, exponent_bits=5, mantissa_bits=10)
    return Halves(high.astype(jnp.float16), (scaled - high).astype(jnp.float16), largest)


def unit(largest: Float[Array, "..."]) -> Float[Array, "..."]:
    """The power of two that an array is divided by: the largest number becomes 2**14 to 2**15; float16 has 2**16."""
    exponent = lax.bitcast_convert_type(largest, jnp.int32) & np.int32(0x7F800000)
    clipped = lax.clamp(np.int32((127 - 100) << 23), exponent, np.int32((127 + 100) << 23))
    return lax.bitcast_convert_type(clipped - np.int32(14 << 23), jnp.float32)


def _multiplied(factor: Halves, half: bool) -> list[Array]:
    """What of a factor a kernel needs: its unit, and one half or both."""
    return [factor.high, factor.largest] if half else [*factor]


def _split_evenly(refs: Sequence[Ref], count: int) -> list[Sequence[Ref]]:
    size = len(refs) // count
    return [refs[k : k + size] for k in range(0, len(refs), size)]


def _load_unit(largest_ref: Ref, task: Index) -> Array:
    return unit(triton.load(largest_ref.at[task]))


def _pixels(refs: Sequence[Ref], task: Index, row: Array, rows: Index, tap: Array) -> list[Array]:
    """What a tap of the kernel sees for rows (example, output pixel) below `rows`: all channels of one pixel each."""
    *_, height, width, channels = refs[0].shape
    (example, i, j), (tap_row, tap_column) = unravel(row, height, width), unravel(tap, 3)
    y, x = i + (tap_row - 1), j + (tap_column - 1)
    inside = ((row < rows) & within(y, height) & within(x, width))[:, None]
    place = (task, example[:, None], y[:, None], x[:, None], lax.iota(jnp.int32, channels)[None, :])
    return [triton.load(ref.at[place], mask=inside, other=0.0) for ref in refs]


def _multiply_add(total: Array, left: Sequence[Array], right: Sequence[Array], contracted: tuple[int, int]) -> Array:
    """Add a product. The total stays outside the tensor cores, which truncate their sums."""
    dimensions = (((contracted[0],), (contracted[1],)), ((), ()))
    dot = functools.partial(lax.dot_general, dimension_numbers=dimensions, preferred_element_type=jnp.float32)
    if len(left) == 1:
        return total + dot(left[0], right[0])
    return total + (dot(left[1], right[0]) + dot(left[0], right[1]) + dot(left[0], right[0]))
