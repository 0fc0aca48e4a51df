"""Per-task 3x3 convolutions for NVIDIA GPUs: the three faces of one trilinear form, written with Pallas (Triton).

For tasks t that each have weights of their own, with padding 1 and a stride, the form is

    F(x, weight, g) = sum over t, n, i, j, di, dj of
                      g[t, n, i, j, :] . weight[t][:, di, dj, :] . x[t, n, stride*i + di - 1, stride*j + dj - 1, :]

where pixels outside the image are zero and the columns of weight[t], a matrix (o, 9c), are ordered (di, dj, channel).
`convolve` is F's gradient in g, `convolve_input_gradient` in x, `convolve_weight_gradient` in weight. Each gathers its
pixels in one kernel (a second adds the parts of long sums) without patches in memory, atomics or derivative rules.
Only a task's first `count` images are there: tiles of others are filled with zeros, and sums leave them out.

Relative errors are 2e-7 to 3e-7. Tiles were chosen on an H200 for 25 tasks of 20 images, 28x28x3 to 4x4x32 at stride 2
(the times in the comments), where latency binds rather than arithmetic; other sizes are right but less tuned.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float, Int, Int8

from anyshot.networks import convolution_halves_gpu as halves
from anyshot.networks.products_gpu import Factors, load_patches, multiply_add, prefetched
from anyshot.networks.tiles_gpu import Index, Ref, below, first_of_tile, gated, launched, padded, tile, unravel, within

Pairs: TypeAlias = Sequence[tuple[Array, Array]]  # what an operation is applied to; the results are added
Count: TypeAlias = Int[Array, " t"]


def convolve(
    pairs: Pairs, count: Count, stride: int, half: bool = False, *, interpret: bool = False
) -> Float[Array, "t n i j o"]:
    """Convolve images (t, n, h, w, c) with each task's weights (t, o, k), and add what several pairs of both give.

    `interpret` runs the kernel's Python on any device, for tests.
    """
    (tasks, examples, height, width, channels), outputs = pairs[0][0].shape, pairs[0][1].shape[1]
    rows = examples * ((height - 1) // stride + 1) * ((width - 1) // stride + 1)
    if halves.fits(tasks * rows, channels, outputs, stride):
        return halves.convolve(pairs, count, half, interpret=interpret)
    return functools.reduce(jnp.add, [_convolve(*pair, count, stride, half, interpret) for pair in pairs])


def convolve_and_rectify(
    x: Float[Array, "t n h w c"], weight: Float[Array, "t o k"], bias: Float[Array, "t o"], count: Count,
    gate: Int8[Array, "t n h w o"] | None = None, *, slope: float, half: bool = False, interpret: bool = False,
) -> Float[Array, "t n h w o"]:  # fmt: skip
    """Convolve at stride 1, add the bias, and multiply what is negative, or what a gate shuts, by the slope."""
    return _convolve(x, weight, count, 1, half, interpret, bias, gate, slope)


def _convolve(
    x: Float[Array, "t n h w c"], weight: Float[Array, "t o k"], count: Count, stride: int, half: bool,
    interpret: bool, bias: Array | None = None, gate: Array | None = None, slope: float = 1.0,
) -> Float[Array, "t n i j o"]:  # fmt: skip
    (tasks, examples, height, width, _), (_, outputs, columns) = x.shape, weight.shape
    size_out = ((height - 1) // stride + 1, (width - 1) // stride + 1)
    rows = examples * size_out[0] * size_out[1]
    # 64 rows and 4 warps get Hopper's warp-group products (14x14x32: 17 us; 64 and 2: 27); fewer rows pay only where 64
    # leave most of the 132 multiprocessors idle (4x4x32: 4.5 us). A step of two taps of 32 channels beats one and four.
    row_tile, output_tile = 64 if tasks * pl.cdiv(rows, 64) >= 100 else 16, min(64, padded(outputs))
    step = min(64 if output_tile <= 32 else 32, padded(columns))

    def kernel(x_ref: Ref, weight_ref: Ref, count_ref: Ref, *refs: Ref) -> None:
        row, output, task = tile(0, row_tile), tile(1, output_tile), pl.program_id(2)
        exists = (row < rows)[:, None] & below(output, outputs)[None, :]
        present = triton.load(count_ref.at[task]) * (size_out[0] * size_out[1])

        def load(first: int) -> Factors:
            column = first + lax.iota(jnp.int32, min(step, padded(columns - first)))
            exists = below(output, outputs)[:, None] & below(column, columns)[None, :]
            weights = triton.load(weight_ref.at[task, output[:, None], column[None, :]], mask=exists, other=0.0)
            return load_patches(x_ref, task, row, present, first, column.size, stride, size_out), weights

        empty = jnp.zeros((row_tile, output_tile), jnp.float32)

        def multiply() -> Array:
            product = empty
            for pixels, weights in prefetched([functools.partial(load, k) for k in range(0, columns, step)], 1):
                product = multiply_add(product, pixels, weights, (1, 1), half, interpret)
            return product

        product = lax.cond(first_of_tile(0, row_tile) < present, multiply, lambda: empty)
        place = (task, row[:, None], output[None, :])
        if bias is not None:
            product += triton.load(refs[0].at[task, output], mask=below(output, outputs), other=0.0)[None, :]
            given = product if gate is None else triton.load(refs[1].at[place], mask=exists, other=0)
            product = gated(product, given, slope)
        triton.store(refs[-1].at[place], product, mask=exists)

    grid = (pl.cdiv(rows, row_tile), pl.cdiv(outputs, output_tile), tasks)
    call = launched(kernel, (tasks, rows, outputs), grid, 4, interpret)
    ending = [] if bias is None else [bias] if gate is None else [bias, gate.reshape(tasks, rows, outputs)]
    return call(x, weight, count, *ending).reshape(tasks, examples, *size_out, outputs)


def convolve_input_gradient(
    pairs: Pairs, count: Count, stride: int, height: int, width: int, half: bool = False, *, interpret: bool = False
) -> Float[Array, "t n h w c"]:
    """The adjoint of `convolve` in x, for pairs of gradients (t, n, i, j, o) and weights."""
    (tasks, examples, *_, outputs), columns = pairs[0][0].shape, pairs[0][1].shape[2]
    if halves.fits(tasks * examples * height * width, outputs, columns // 9, stride):
        return halves.convolve_input_gradient(pairs, count, half, interpret=interpret)
    return functools.reduce(
        jnp.add, [_input_gradient(*pair, count, stride, height, width, half, interpret) for pair in pairs]
    )


def _input_gradient(
    g: Float[Array, "t n i j o"], weight: Float[Array, "t o k"], count: Count, stride: int, height: int, width: int,
    half: bool, interpret: bool,
) -> Float[Array, "t n h w c"]:  # fmt: skip
    (tasks, examples, *size_out, outputs), channels = g.shape, weight.shape[2] // 9
    # A row is a block of stride x stride pixels, which share the outputs that reach them; so each is read only once.
    blocks = (pl.cdiv(height, stride), pl.cdiv(width, stride))
    rows = examples * blocks[0] * blocks[1]
    # With few channels one tile holds all pixels of a block (28x28x3: 19 us; one tile each: 44).
    merged, output_tile = channels % 16 != 0, min(64, padded(outputs))
    columns = stride * stride * channels if merged else channels
    column_tile = min(32, padded(columns)) if merged else 32 if channels % 32 == 0 else 16
    # As in `convolve`, but 128 rows and 8 warps where they fill the GPU (14x14x32: 19 us; 64 and 4: 21). To load all
    # before the first product saves 10% where it fits the registers, and costs tenfold where it does not.
    row_tile = next((size for size in (128, 64) if tasks * pl.cdiv(rows, size) >= 100), 16)
    depth = 9 if stride > 1 and output_tile * column_tile <= 1024 else 1

    def kernel(g_ref: Ref, weight_ref: Ref, count_ref: Ref, x_ref: Ref) -> None:
        example, down, across = (part[:, None] for part in unravel(tile(0, row_tile), *blocks))
        channel, task = tile(1, column_tile), pl.program_id(2)
        count = triton.load(count_ref.at[task])
        present = first_of_tile(0, row_tile) < count * (blocks[0] * blocks[1])
        exists = below(channel, columns)[None, :]
        pixels: list[tuple[Index, Index]] = [(a, b) for a in range(stride) for b in range(stride)]
        if merged:
            *pixel, channel = unravel(channel, stride, channels)
            pixels = [(pixel[0], pixel[1])]

        @functools.cache
        def gradients(i: int, j: int, first: int) -> Array:
            output = first + lax.iota(jnp.int32, output_tile)[None, :]
            inside = (example < count) & within(down + i, size_out[0]) & within(across + j, size_out[1])
            pixels = g_ref.at[task, example, down + i, across + j, output]
            return triton.load(pixels, mask=inside & below(output, outputs), other=0.0)

        def load(tap_row: Index, tap_column: Index, i: int, j: int, first: int) -> Factors:
            output = first + lax.iota(jnp.int32, output_tile)[:, None]
            weights = weight_ref.at[task, output, ((tap_row * 3 + tap_column) * channels + channel)[None, :]]
            reached = exists & (within(tap_row, 3) & within(tap_column, 3)) & below(output, outputs)
            return gradients(i, j, first), triton.load(weights, mask=reached, other=0.0)

        offsets = range(-1, 2) if stride == 1 else range(2)  # from a block to the outputs that reach its pixels
        places = list(itertools.product(offsets, offsets, range(0, outputs, output_tile)))
        taps = [[(a + 1 - stride * i, b + 1 - stride * j, i, j, k) for i, j, k in places] for a, b in pixels]
        taps = [[t for t in own if merged or (within(t[0], 3) and within(t[1], 3))] for own in taps]

        def store(a: Index, b: Index, product: Array) -> None:
            y, x = stride * down + a, stride * across + b
            inside = (example < examples) & (y < height) & (x < width) & exists
            triton.store(x_ref.at[task, example, y, x, channel[None, :]], product, mask=inside)

        @pl.when(present)
        def _() -> None:
            factors = prefetched([functools.partial(load, *tap) for own in taps for tap in own], depth)
            for (a, b), own in zip(pixels, taps, strict=True):
                product = jnp.zeros((row_tile, column_tile), jnp.float32)
                for gradient, weights in itertools.islice(factors, len(own)):
                    product = multiply_add(product, gradient, weights, (1, 0), half, interpret)
                store(a, b, product)

        @pl.when(~present)
        def _() -> None:
            for a, b in pixels:
                store(a, b, jnp.zeros((row_tile, column_tile), jnp.float32))

    grid, warps = (pl.cdiv(rows, row_tile), pl.cdiv(columns, column_tile), tasks), 8 if row_tile == 128 else 4
    return launched(kernel, (tasks, examples, height, width, channels), grid, warps, interpret)(g, weight, count)


def convolve_weight_gradient(
    pairs: Pairs, count: Count, stride: int, half: bool = False, *, interpret: bool = False
) -> Float[Array, "t o k"]:
    """The adjoint of `convolve` in weight, for pairs of images and gradients."""
    (x, g), *_ = pairs
    if halves.fits(g.size // g.shape[4], x.shape[4], g.shape[4], stride):
        return halves.convolve_weight_gradient(pairs, count, half, interpret=interpret)
    return functools.reduce(jnp.add, [_weight_gradient(*pair, count, stride, half, interpret) for pair in pairs])


def rectified_weight_gradient(
    x: Float[Array, "t n h w c"], g: Float[Array, "t n h w o"], count: Count, gate: Int8[Array, "t n h w o"], *,
    slope: float, half: bool = False, interpret: bool = False,
) -> Float[Array, "t o k"]:  # fmt: skip
    """The adjoint of `convolve_and_rectify` in weight, at a gate."""
    return _weight_gradient(x, g, count, 1, half, interpret, gate, slope)


def _weight_gradient(
    x: Float[Array, "t n h w c"], g: Float[Array, "t n i j o"], count: Count, stride: int, half: bool,
    interpret: bool, gate: Array | None = None, slope: float = 1.0,
) -> Float[Array, "t o k"]:  # fmt: skip
    tasks, examples, *size_out, outputs = g.shape
    columns, rows = 9 * x.shape[4], examples * size_out[0] * size_out[1]
    output_tile, column_tile = min(64, padded(outputs)), min(32, padded(columns))
    grid = (pl.cdiv(columns, column_tile), pl.cdiv(outputs, output_tile))
    # Up to 320 rows one program adds them all, as a second kernel hardly pays (7x7x32: 11 us; in halves 8 + 2 and a
    # launch). Beyond, 128 rows each (14x14x32: 18 + 2 us; not split 34), unless the parts become too many.
    parts = 1 if rows <= 320 else min(pl.cdiv(rows, 128), max(1, 4096 // (tasks * grid[0] * grid[1])))
    row_tile = 64 if 128 < rows <= 320 else 32

    def kernel(x_ref: Ref, g_ref: Ref, count_ref: Ref, *refs: Ref) -> None:
        task, part = unravel(pl.program_id(2), parts)
        column, output, first = tile(0, column_tile), tile(1, output_tile), first_of_tile(0, column_tile)
        present = triton.load(count_ref.at[task]) * (size_out[0] * size_out[1])
        steps = lax.div(present + (row_tile * parts - 1), np.int32(row_tile * parts))  # all parts have as much to add

        def add(step: Array, product: Array) -> Array:
            row = (part * steps + step) * row_tile + lax.iota(jnp.int32, row_tile)
            exists = (row < present)[:, None] & below(output, outputs)[None, :]
            place = (task, row[:, None], output[None, :])
            gradients = triton.load(g_ref.at[place], mask=exists, other=0.0)
            if gate is not None:
                gradients = gated(gradients, triton.load(refs[0].at[place], mask=exists, other=0), slope)
            pixels = load_patches(x_ref, task, row, present, first, column_tile, stride, size_out)
            return multiply_add(product, gradients, pixels, (0, 0), half, interpret)

        product = lax.fori_loop(0, steps, add, jnp.zeros((output_tile, column_tile), jnp.float32))
        exists = below(output, outputs)[:, None] & below(column, columns)[None, :]
        triton.store(refs[-1].at[part, task, output[:, None], column[None, :]], product, mask=exists)

    call = launched(kernel, (parts, tasks, outputs, columns), (*grid, tasks * parts), 2, interpret)
    by_row = [array.reshape(tasks, rows, outputs) for array in (g, gate) if array is not None]
    return call(x, by_row[0], count, *by_row[1:]).sum(0)
