"""The kernels of `kernel_backends` in Triton's own language, called through `jax_triton`."""

# Triton reads what annotations a kernel has, and has no types for its own.
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import jax
import numpy as np
import triton
import triton.language as tl
from jax.experimental import pallas as pl
from jax_triton import triton_call

BLOCK = 1024


@triton.jit
def triton_convolution(
    x_high, x_low, w_high, w_low, scale, count, y,
    IMAGES: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, OUTPUTS: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    output, channel = tl.arange(0, OUTPUTS), tl.arange(0, CHANNELS)
    present = tl.load(count) * (HEIGHT * WIDTH)
    i, j = row // WIDTH % HEIGHT, row % WIDTH
    total = tl.zeros((ROWS, OUTPUTS), tl.float32)
    if tl.program_id(0) * ROWS < present:
        for tap in range(9):
            down, across = tap // 3 - 1, tap % 3 - 1
            inside = (row < present) & (i + down >= 0) & (i + down < HEIGHT) & (j + across >= 0) & (j + across < WIDTH)
            pixel = (row + down * WIDTH + across)[:, None] * CHANNELS + channel[None, :]
            weight = output[None, :] * (9 * CHANNELS) + tap * CHANNELS + channel[:, None]
            pixels_high = tl.load(x_high + pixel, mask=inside[:, None], other=0.0)
            pixels_low = tl.load(x_low + pixel, mask=inside[:, None], other=0.0)
            weights_high, weights_low = tl.load(w_high + weight), tl.load(w_low + weight)
            product = tl.dot(pixels_low, weights_high)
            product = tl.dot(pixels_high, weights_low, product)
            total += tl.dot(pixels_high, weights_high, product)  # the total stays outside the tensor cores
    place = row[:, None] * OUTPUTS + output[None, :]
    tl.store(y + place, total * tl.load(scale), mask=(row < IMAGES * HEIGHT * WIDTH)[:, None])


def convolve_triton(x: Any, weight: Any, scale: Any, count: Any, **options: Any) -> Any:
    (_, images, height, width, channels), outputs, row_tile = x.high.shape, weight.high.shape[1], 64
    return triton_call(
        x.high, x.low, weight.high, weight.low, scale, count, kernel=triton_convolution, num_warps=4, num_stages=2,
        out_shape=jax.ShapeDtypeStruct((1, images, height, width, outputs), np.float32),
        grid=pl.cdiv(images * height * width, row_tile),
        IMAGES=images, HEIGHT=height, WIDTH=width, CHANNELS=channels, OUTPUTS=outputs, ROWS=row_tile, **options,
    )  # fmt: skip


@triton.jit
def triton_times(x, y, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + place, 1.0001 * tl.load(x + place, mask=place < SIZE), mask=place < SIZE)


def times_triton(x: Any, **options: Any) -> Any:
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    sizes = {"SIZE": x.size, "BLOCK": BLOCK}
    return triton_call(x, kernel=triton_times, out_shape=shape, grid=pl.cdiv(x.size, BLOCK), **sizes, **options)


@contextmanager
def through_ffi() -> Iterator[None]:
    """Inside, `jax_triton` before 0.4 calls its kernels by XLA's FFI, as later ones do; a CUDA graph needs that."""
    lowering = jax.ffi.ffi_lowering

    def lower(name: str, **options: Any) -> Callable[..., Any]:
        if name != "triton_kernel_call":
            return lowering(name, **options)
        rule = lowering(f"{name}_ffi", operand_output_aliases=options["operand_output_aliases"])
        return functools.partial(rule, opaque=options["backend_config"])

    with mock.patch.object(jax.ffi, "ffi_lowering", lower):
        yield
