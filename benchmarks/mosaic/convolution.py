"""A convolution of halves: a multiprocessor keeps all weights of a task."""

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


def convolve_halves(
    x: Halves, weight: Halves, count: Count, half: bool = False, before: Any = None, *, cores: int | None = None,
    interpret: Any = False,
) -> Any:  # fmt: skip
    """A convolution, added to what is there `before`.

    A multiprocessor keeps all weights of a task, and has two warp groups with a tile of 8x8 pixels each. A copy holds
    the ten rows of pixels that the three taps of a column see, in one of the halves; it runs while the other half is
    multiplied.
    """
    (tasks, images, height, width, channels), outputs = x.high.shape, weight.high.shape[1]
    down, across = pl.cdiv(height, SIDE), pl.cdiv(width, SIDE)
    each, parts, halves = cores_for(tasks, cores), outputs // PART, 1 if half else 2
    x, edge = padded(x, interpret)

    def kernel(*refs: Ref) -> None:
        x_halves, w_halves, (x_unit, w_unit, count) = take(refs, halves, halves, 3)
        *before, y, pixels, weights, results, arrived, ready, added = refs[2 * halves + 3 :]
        pixels, results = (Views(view[0], view[1], bool(interpret)) for view in (pixels, results))
        task, core, group = (lax.axis_index(name) for name in ("task", "core", "group"))
        tiles, present = images * down * across, count[task] * (down * across)

        def tile(step: Any, first: Any, last: Any) -> tuple[Any, Any, Any]:
            index = jnp.minimum(first + (step * each + core) * 2 + group, last)
            image, i, j = unravel(index, down, across)
            return image, SIDE * i, SIDE * j

        def present_tile(step: Any) -> tuple[Any, Any, Any]:
            return tile(step, 0, jnp.maximum(present - 1, 0))

        def of_image(ref: Ref, place: tuple[Any, Any, Any], part: int) -> Ref:
            image, i, j = place
            return ref.at[task, image, pl.ds(i, SIDE), pl.ds(j, SIDE), pl.ds(PART * part, PART)]

        def fetch(step: Any, column: Any, k: int) -> None:
            image, i, j = present_tile(step)
            source = x_halves[k].at[task, image, *box(i, j, column, edge)]
            mosaic_gpu.copy_gmem_to_smem(source, pixels.copied.at[group, k], arrived.at[group * halves + k])

        def of_column(step: Any, column: Any, total: Any) -> Any:
            column = column.astype(jnp.int32)
            for k in range(halves):
                mosaic_gpu.barrier_wait(arrived.at[group * halves + k])
                pixels.pass_on(group, k)
                # The low half of the pixels meets only the high one of the weights.
                pairs = [(0, 1), (0, 0)] if k == 0 and halves == 2 else [(0, 0)]
                for row in range(3):
                    seen = pixels.multiplied.at[group, k, SIDE * row : SIDE * row + PIXELS]
                    taps = [weights.at[m, 3 * row + column].T for m in range(halves)]
                    total += multiply([seen], taps, pairs, outputs)
                last = lax.div(column, np.int32(2))
                fetch(step + last, (column + 1) * (1 - last), k)
            return total

        def store(place: tuple[Any, Any, Any]) -> None:
            mosaic_gpu.commit_smem()
            for part in range(parts):
                mosaic_gpu.copy_smem_to_gmem(results.copied.at[group, part], of_image(y, place, part))

        def of_tile(step: Any, _: None) -> None:
            place = present_tile(step)
            mosaic_gpu.wait_smem_to_gmem(0, wait_read_only=True)
            for part in range(parts if before else 0):
                mosaic_gpu.copy_gmem_to_smem(
                    of_image(before[0], place, part), results.copied.at[group, part], added.at[group]
                )
            product = lax.fori_loop(0, 3, functools.partial(of_column, step), empty(outputs))
            product = product * x_unit[task] * w_unit[task]
            if before:
                mosaic_gpu.barrier_wait(added.at[group])
            for part in range(parts):
                own = product[:, PART * part : PART * part + PART]
                if before:
                    results.pass_on(group, part)
                    own += mosaic_gpu.layout_cast(results.multiplied[group, part], mosaic_gpu.Layout.WGMMA)
                results.multiplied[group, part] = own
                results.pass_on(group, part, back=True)
            store(place)

        def leave_out(step: Any, _: None) -> None:
            store(tile(step, present, tiles - 1))

        @pl.when(group == 0)
        def _() -> None:
            for (k, source), tap in itertools.product(enumerate(w_halves), range(9)):
                taps = source.at[task, :, pl.ds(tap * channels, channels)]
                mosaic_gpu.copy_gmem_to_smem(taps, weights.at[k, tap], ready)

        for k in range(halves):
            fetch(0, 0, k)
        mosaic_gpu.barrier_wait(ready)
        lax.fori_loop(FIRST, lax.div(present + (2 * each - 1), np.int32(2 * each)), of_tile, None)
        for k in range(halves):
            mosaic_gpu.barrier_wait(arrived.at[group * halves + k])  # what the last step fetched for no one
        mosaic_gpu.wait_smem_to_gmem(0)
        for part in range(parts):  # images behind the count
            results.multiplied[group, part] = empty(outputs)[:, :PART]
            results.pass_on(group, part, back=True)
        lax.fori_loop(FIRST, lax.div(tiles - present + (2 * each - 1), np.int32(2 * each)), leave_out, None)
        mosaic_gpu.wait_smem_to_gmem(0)

    return launched(
        kernel, out_type=jax.ShapeDtypeStruct((tasks, images, height, width, outputs), np.float32),
        scratch_types=[
            views((2, halves), ROWS, channels, np.float16, interpret),
            swizzled((halves, 9, outputs, channels), np.float16, True),
            views((2, parts), SIDE, PART, np.float32, interpret),
            mosaic_gpu.Barrier(num_barriers=2 * halves),
            mosaic_gpu.Barrier(num_arrivals=9 * halves),
            mosaic_gpu.Barrier(num_barriers=2, num_arrivals=parts),
        ],
        grid=(tasks, each), grid_names=("task", "core"), num_threads=2, thread_name="group", interpret=interpret,
    )(
        *x[:halves], *weight[:halves], unit(x.largest), unit(weight.largest), count,
        *([] if before is None else [before]),
    )  # fmt: skip
