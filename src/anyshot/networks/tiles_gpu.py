"""What the GPU kernels share: launching a grid of programs, and the indices of the tile that one of them works on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import ShapeDtypeStruct, lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array

Ref: TypeAlias = Any  # an array in the GPU's memory
Index: TypeAlias = Any  # an int, or int32 indices


def launched(
    kernel: Callable[..., None], shape: Any, grid: Any, warps: int, interpret: bool, stages: int = 1
) -> Callable[..., Array]:
    """The kernel as a function of arrays; `interpret` runs its Python on any device, for tests.

    With several `stages` a loop's copies run ahead of its products. Where what is copied is still to be split, that was
    slower.
    """
    parameters = triton.CompilerParams(num_warps=warps, num_stages=stages)
    out = ShapeDtypeStruct(shape, np.float32)
    return pl.pallas_call(kernel, out_shape=out, grid=grid, compiler_params=parameters, interpret=interpret)


def padded(size: int) -> int:
    """The size of a tile that holds so many.

    >>> padded(3), padded(27)
    (16, 32)
    """
    return max(16, pl.next_power_of_2(size))  # Triton's tiles are powers of two, those of its products at least 16


def tile(axis: int, size: int) -> Array:
    """The indices of this program's tile."""
    return first_of_tile(axis, size) + lax.iota(jnp.int32, size)


def first_of_tile(axis: int, size: int) -> Array:
    """The first index of this program's tile."""
    return pl.program_id(axis) * size


def below(tile: Array, size: int) -> Array:
    """Which indices are inside an axis of this size."""
    return tile < size if size % tile.size else jnp.ones(tile.shape, bool)  # a constant mask costs nothing


def within(index: Index, size: int) -> Any:
    """Whether an index, which may be negative, is inside an axis of this size."""
    return (index >= 0) & (index < size)


def unravel(index: Index, *sizes: int) -> tuple[Index, ...]:
    """The indices of axes, all but the first of these sizes, from one index of all.

    >>> unravel(17, 3, 4)
    (1, 1, 1)
    """
    if not sizes:
        return (index,)
    divide = divmod if isinstance(index, int) else lambda a, b: (lax.div(a, np.int32(b)), lax.rem(a, np.int32(b)))
    quotient, rest = divide(index, sizes[-1])  # on arrays, divmod itself would mind negative values, at a cost
    return (*unravel(quotient, *sizes[:-1]), rest)


def gated(numbers: Array, gate: Array, slope: float) -> Array:
    """The numbers where the gate is open, and `slope` times those where it is 0."""
    return jnp.where(gate > 0, numbers, slope * numbers)
