"""The kernels of `kernel_backends` in Pallas on Mosaic GPU, for Hopper: copies by its TMA, products of warp groups."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu

from anyshot.networks.tiles_gpu import unravel


def convolve_mosaic(x: Any, weight: Any, scale: Any, count: Any, cores: int | None = None, **options: Any) -> Any:
    """Tiles of 8x8 pixels with 64 channels. Copies put zeros around an image, and the last tiles of a row overlap.

    Each multiprocessor keeps all weights, and has two warp groups with a tile each. A copy holds the ten rows of pixels
    that the three taps of a column see, in one of the halves; it runs while the other half is multiplied. All images
    count, whatever `count` says.
    """
    (_, images, height, width, channels), outputs = x.high.shape, weight.high.shape[1]
    down, across = pl.cdiv(height, 8), pl.cdiv(width, 8)
    cores, tiles = cores or jax.devices()[0].core_count, images * down * across

    def kernel(*refs: Any) -> None:
        x_high, x_low, w_high, w_low, scale, y, pixel_views, weights, result_views, arrived, ready = refs
        (pixels_in, pixels), (results_out, results) = pixel_views, result_views
        group, core = lax.axis_index("group"), lax.axis_index("core")

        def place(step: Any) -> tuple[Any, Any, Any]:
            tile = jnp.minimum((step * cores + core) * 2 + group, tiles - 1)
            image, i, j = unravel(tile, down, across)
            return image, jnp.minimum(8 * i, height - 8), jnp.minimum(8 * j, width - 8)

        def fetch(step: Any, column: Any, half: int) -> None:
            image, i, j = place(step)
            source = (x_high, x_low)[half].at[0, image, pl.ds(i - 1, 10), pl.ds(j + column - 1, 8)]
            mosaic_gpu.copy_gmem_to_smem(source, pixels_in.at[group, half], arrived.at[group * 2 + half])

        def multiply(column: Any, row: int, half: int) -> Any:
            def add(product: Any) -> Any:
                for k in (1, 0) if half == 0 else (0,):  # the low half of the pixels meets only high weights
                    left = pixels.at[group, half, 8 * row : 8 * row + 64]
                    mosaic_gpu.wgmma(product, left, weights.at[k, 3 * row + column].T)
                return product[...]

            return pl.run_scoped(add, mosaic_gpu.WGMMAAccumulatorRef((64, outputs), jnp.dtype("float32")))

        def of_column(step: Any, column: Any, total: Any) -> Any:
            for half in range(2):
                mosaic_gpu.barrier_wait(arrived.at[group * 2 + half])
                for row in range(3):
                    total += multiply(column, row, half)  # outside the tensor cores
                last = lax.div(column, np.int32(2))
                fetch(step + last, (column + 1) * (1 - last), half)
            return total

        def of_tile(step: Any, _: None) -> None:
            empty = mosaic_gpu.layout_cast(jnp.zeros((64, outputs), np.float32), mosaic_gpu.Layout.WGMMA)
            total = lax.fori_loop(0, 3, functools.partial(of_column, step), empty)
            mosaic_gpu.wait_smem_to_gmem(0, wait_read_only=True)
            for part in range(outputs // 32):
                results[group, part] = total[:, 32 * part : 32 * part + 32] * factor
            mosaic_gpu.commit_smem()
            image, i, j = place(step)
            for part in range(outputs // 32):
                there = y.at[0, image, pl.ds(i, 8), pl.ds(j, 8), pl.ds(32 * part, 32)]
                mosaic_gpu.copy_smem_to_gmem(results_out.at[group, part], there)

        @pl.when(group == 0)
        def _() -> None:
            for (k, half), tap in itertools.product(enumerate((w_high, w_low)), range(9)):
                mosaic_gpu.copy_gmem_to_smem(half.at[0, :, pl.ds(tap * channels, channels)], weights.at[k, tap], ready)

        for half in range(2):
            fetch(0, 0, half)
        mosaic_gpu.barrier_wait(ready)
        factor = scale[0]
        lax.fori_loop(0, pl.cdiv(tiles, 2 * cores), of_tile, None)
        for half in range(2):
            mosaic_gpu.barrier_wait(arrived.at[group * 2 + half])  # what the last step fetched for no one
        mosaic_gpu.wait_smem_to_gmem(0)

    def shared(*views: tuple[tuple[int, ...], tuple[int, ...]], dtype: Any) -> Any:
        swizzle, tiling = mosaic_gpu.SwizzleTransform(128), mosaic_gpu.TilingTransform
        refs = [
            mosaic_gpu.SMEM(shape, dtype, transforms=(*([tiling(tile)] if tile else []), swizzle))
            for shape, tile in views
        ]
        # Copies see pixels by row and column, products see them in one line. Both views begin at the same byte and have
        # 128 bytes for each pixel. Pallas does not promise that; it is so in JAX 0.11.2.
        return mosaic_gpu.RefUnion(*refs) if len(refs) > 1 else refs[0]

    lanes = mosaic_gpu.CompilerParams(lowering_semantics=mosaic_gpu.LoweringSemantics.Lane)
    return mosaic_gpu.kernel(
        kernel, out_type=jax.ShapeDtypeStruct((1, images, height, width, outputs), np.float32),
        scratch_types=[
            shared(((2, 2, 10, 8, channels), ()), ((2, 2, 80, channels), (8, 64)), dtype=np.float16),
            shared(((2, 9, outputs, channels), (8, 64)), dtype=np.float16),
            shared(((2, outputs // 32, 8, 8, 32), ()), ((2, outputs // 32, 64, 32), (8, 32)), dtype=np.float32),
            mosaic_gpu.Barrier(num_barriers=4),
            mosaic_gpu.Barrier(num_arrivals=18),
        ],
        grid=(cores,), grid_names=("core",), num_threads=2, thread_name="group", compiler_params=lanes, **options,
    )(x.high, x.low, weight.high, weight.low, scale)  # fmt: skip


def times_mosaic(x: Any, **options: Any) -> Any:
    def kernel(x_ref: Any, y_ref: Any) -> None:
        place = pl.ds(lax.axis_index("block") * 896, 896)  # all blocks must be full
        y_ref[place] = 1.0001 * x_ref[place]

    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return mosaic_gpu.kernel(kernel, out_type=shape, grid=(x.size // 896,), grid_names=("block",), **options)(x)
