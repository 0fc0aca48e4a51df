"""The gradient of the weights of a convolution of halves: a warp group adds up a row of taps."""

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

from anyshot.networks.convolution_halves_gpu import Count, Halves, unit
from anyshot.networks.tiles_gpu import Ref, unravel

from .tiles import (
    FIRST,
    PART,
    PIXELS,
    ROWS,
    SIDE,
    Views,
    box,
    cores_for,
    empty,
    launched,
    multiply,
    padded,
    swizzled,
    take,
    views,
)


def weight_gradient(
    x: Halves, g: Halves, count: Count, half: bool = False, *, cores: int | None = None, interpret: Any = False
) -> Any:
    """The gradient of the weights. A warp group adds up the three taps of a row, over the tiles of a multiprocessor.

    Products have at least 64 rows. Of 32 channels both halves are taken as 64, and one product has all four of theirs.
    """
    (tasks, *_, channels), outputs = x.high.shape, g.high.shape[4]
    if channels == PART:
        x64, g64 = (factor._replace(high=jnp.concatenate(factor[:2], -1)) for factor in (x, g))
        found = weight_products(x64, g64, count, 1, cores, interpret).reshape(tasks, 9, 2, outputs, 2, channels)
        products = found[:, :, 0, :, 0]
        products = products if half else products + (found[:, :, 0, :, 1] + found[:, :, 1, :, 0])
    else:
        products = weight_products(x, g, count, 1 if half else 2, cores, interpret)
    for factor in (x, g):  # one after the other: both together may be below what float32 has
        products *= unit(factor.largest)[:, None, None, None]
    return products.transpose(0, 2, 1, 3).reshape(tasks, outputs, 9 * channels)


def weight_products(x: Halves, g: Halves, count: Count, halves: int, cores: int | None, interpret: Any) -> Any:
    """The sums over pixels of gradients times what each tap sees, (t, 9, o, c), for 64 channels."""
    (tasks, _, height, width, channels), outputs = x.high.shape, g.high.shape[4]
    down, across, each, stages = pl.cdiv(height, SIDE), pl.cdiv(width, SIDE), cores_for(tasks, cores), 2
    parts = channels // PART
    x, edge = padded(x, interpret)

    def kernel(*refs: Ref) -> None:
        x_halves, g_halves, (count, y) = take(refs, halves, halves, 2)
        pixels, gradients, results, arrived, freed = refs[2 * halves + 2 :]
        pixels, gradients = (Views(view[0], view[1], bool(interpret)) for view in (pixels, gradients))
        task, core, row = (lax.axis_index(name) for name in ("task", "core", "row"))
        present = count[task] * (down * across)
        steps = lax.div(jnp.maximum(present - core, 0) + (each - 1), np.int32(each))

        def fetch(step: Any, stage: Any) -> None:
            image, i, j = unravel(jnp.minimum(step * each + core, jnp.maximum(present - 1, 0)), down, across)
            for k in range(halves):
                source = g_halves[k].at[task, image, pl.ds(SIDE * i, SIDE), pl.ds(SIDE * j, SIDE)]
                mosaic_gpu.copy_gmem_to_smem(source, gradients.copied.at[stage, k], arrived.at[stage])
                for column in range(3):
                    source = x_halves[k].at[task, image, *box(SIDE * i, SIDE * j, column, edge)]
                    mosaic_gpu.copy_gmem_to_smem(source, pixels.copied.at[stage, column, k], arrived.at[stage])

        def add(of_row: int, step: Any, totals: tuple[Any, ...]) -> tuple[Any, ...]:
            stage = lax.rem(step, np.int32(stages))
            mosaic_gpu.barrier_wait(arrived.at[stage])
            for k in range(halves):
                gradients.pass_on(stage, k)
                for column in range(3):
                    pixels.pass_on(stage, column, k)
            left, found = [gradients.multiplied.at[stage, k].T for k in range(halves)], []
            for column, total in enumerate(totals):
                seen = pixels.multiplied.at[stage, column]
                right = [seen.at[k, SIDE * of_row : SIDE * of_row + PIXELS] for k in range(halves)]
                pairs = [(1, 0), (0, 1), (0, 0)] if halves == 2 else [(0, 0)]
                found.append(total + multiply(left, right, pairs, channels))
            mosaic_gpu.barrier_arrive(freed.at[stage])
            mosaic_gpu.barrier_wait(freed.at[stage])
            if of_row == 0:
                fetch(step + stages, stage)
            return tuple(found)

        def of_row(this: int) -> None:
            if this == 0:
                for stage in range(stages):
                    fetch(stage, stage)
            totals = lax.fori_loop(FIRST, steps, functools.partial(add, this), (empty(channels),) * 3)
            for stage in range(stages):
                mosaic_gpu.barrier_wait(arrived.at[stage])  # what the last steps fetched for no one
            for column, part in itertools.product(range(3), range(parts)):
                mosaic_gpu.wait_smem_to_gmem(0, wait_read_only=True)
                results[this] = totals[column][:, PART * part : PART * part + PART]
                mosaic_gpu.commit_smem()
                there = y.at[task, core, 3 * this + column, :, pl.ds(PART * part, PART)]
                mosaic_gpu.copy_smem_to_gmem(results.at[this], there)
            mosaic_gpu.wait_smem_to_gmem(0)

        for this in range(3):
            pl.when(row == this)(functools.partial(of_row, this))

    return launched(
        kernel, out_type=jax.ShapeDtypeStruct((tasks, each, 9, outputs, channels), np.float32),
        scratch_types=[
            views((stages, 3, halves), ROWS, channels, np.float16, interpret),
            views((stages, halves), SIDE, outputs, np.float16, interpret),
            swizzled((3, PIXELS, PART), np.float32, True),
            mosaic_gpu.Barrier(num_barriers=stages, num_arrivals=4 * halves),
            mosaic_gpu.Barrier(num_barriers=stages, num_arrivals=3),
        ],
        grid=(tasks, each), grid_names=("task", "core"), num_threads=3, thread_name="row", interpret=interpret,
    )(*x[:halves], *g[:halves], count).sum(1)  # fmt: skip
