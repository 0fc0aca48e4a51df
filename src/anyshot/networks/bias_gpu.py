"""The gradient of a bias on NVIDIA GPUs, written with Pallas (Triton)."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float

from anyshot.networks.tiles_gpu import Ref, below, gated, launched, padded


def sum_pixels(
    g: Float[Array, "t n i j o"], gate: Array | None = None, *, slope: float = 1.0, interpret: bool = False
) -> Float[Array, "t o"]:
    """The sum over images and pixels, which is a bias's gradient; of numbers behind a gate if there is one."""
    (tasks, *_, outputs), row_tile = g.shape, 256
    rows, output_tile = g.size // (tasks * outputs), padded(outputs)
    parts = pl.cdiv(rows, 4 * row_tile)
    steps = pl.cdiv(rows, row_tile * parts)

    def kernel(g_ref: Ref, *refs: Ref) -> None:
        part, task, output = pl.program_id(0), pl.program_id(1), lax.iota(jnp.int32, output_tile)

        def add(step: Array, total: Array) -> Array:
            row = (part * steps + step) * row_tile + lax.iota(jnp.int32, row_tile)
            exists = (row < rows)[:, None] & below(output, outputs)[None, :]
            place = (task, row[:, None], output[None, :])
            numbers = triton.load(g_ref.at[place], mask=exists, other=0.0)
            if gate is not None:
                numbers = gated(numbers, triton.load(refs[0].at[place], mask=exists, other=0), slope)
            return total + numbers.sum(0)

        total = lax.fori_loop(0, steps, add, jnp.zeros(output_tile, jnp.float32))
        triton.store(refs[-1].at[part, task, output], total, mask=below(output, outputs))

    call = launched(kernel, (parts, tasks, outputs), (parts, tasks), 4, interpret)
    return call(*(array.reshape(tasks, rows, outputs) for array in (g, gate) if array is not None)).sum(0)
