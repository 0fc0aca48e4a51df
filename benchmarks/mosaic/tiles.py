"""What the Mosaic kernels share: tiles of 8x8 pixels in shared memory, and products of them.

Copies put zeros around an image, and drop what is written beside it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu

from anyshot.networks.convolution_halves_gpu import Halves
from anyshot.networks.tiles_gpu import Index, Ref

SIDE, PART = 8, 32  # of a tile of pixels; channels of a result that are copied together, 128 bytes of each pixel
PIXELS, ROWS = SIDE * SIDE, SIDE + 2  # of a tile; rows of pixels that the three taps of a column see
FIRST = np.int32(0)  # where 64 bits are the default, a loop would count in them


class Views(NamedTuple):
    """The same bytes twice: for copies, which see pixels by row and column, and for products, which see one line.

    Both views begin at the same byte and have as many bytes for each pixel. Pallas does not promise that; it is so in
    JAX 0.11.2. The interpreter has two arrays instead, and `pass_on` copies.
    """

    copied: Ref
    multiplied: Ref
    interpreted: bool

    def pass_on(self, *place: Index, back: bool = False) -> None:
        """Make what was written to one view readable in the other."""
        if self.interpreted:
            source, target = self[:2][::-1] if back else self[:2]
            target[place] = source[place].reshape(target.shape[len(place) :])
            mosaic_gpu.commit_smem()


def padded(factor: Halves, interpret: Any) -> tuple[Halves, int]:
    """Images, and the index of their first row and column. A copy may begin before it; the interpreter's may not."""
    if not interpret:
        return factor, 0
    around = [(0, 0), (0, 0), (1, 0), (1, 0), (0, 0)]
    return Halves(jnp.pad(factor.high, around), jnp.pad(factor.low, around), factor.largest), 1


def box(i: Index, j: Index, column: Index, edge: int) -> tuple[Any, Any]:
    """The rows and columns of pixels that the taps of a column see from the tile at (i, j)."""
    return pl.ds(i + edge - 1, ROWS), pl.ds(j + edge + column - 1, SIDE)


def swizzled(shape: tuple[int, ...], dtype: Any, tiled: bool) -> Any:
    """Shared memory for copies of at most 128 bytes a line, in tiles of eight lines if products read it."""
    size = shape[-1] * np.dtype(dtype).itemsize
    kinds: Any = mosaic_gpu  # JAX 0.12 declares its transforms abstract, which they are not
    transforms = [kinds.TilingTransform((8, shape[-1]))] * tiled + [kinds.SwizzleTransform(size)]
    return mosaic_gpu.SMEM(shape, dtype, transforms=tuple(transforms))


def views(shape: tuple[int, ...], rows: int, channels: int, dtype: Any, interpret: Any) -> Any:
    """Shared memory for tiles of so many rows of pixels, once for copies and once for products."""
    copied = swizzled((*shape, rows, SIDE, channels), dtype, False)
    multiplied = swizzled((*shape, rows * SIDE, channels), dtype, True)
    return [copied, multiplied] if interpret else mosaic_gpu.RefUnion(copied, multiplied)


def launched(kernel: Callable[..., None], **options: Any) -> Callable[..., Any]:
    """The kernel as a function of arrays; with `interpret` JAX interprets it on a CPU."""
    lanes = mosaic_gpu.CompilerParams(lowering_semantics=mosaic_gpu.LoweringSemantics.Lane)
    return mosaic_gpu.kernel(kernel, compiler_params=lanes, **options)


def cores_for(tasks: int, cores: int | None) -> int:
    """How many multiprocessors a task has."""
    if cores is None:
        cores = getattr(jax.devices()[0], "core_count", 132)  # an H200's where this only lowers
    return max(1, cores // tasks)


def empty(channels: int) -> Any:
    """Zeros for a tile, spread over a warp group's threads as its products are."""
    return mosaic_gpu.layout_cast(jnp.zeros((PIXELS, channels), np.float32), mosaic_gpu.Layout.WGMMA)


def multiply(left: Sequence[Ref], right: Sequence[Ref], pairs: Sequence[tuple[int, int]], channels: int) -> Any:
    """The sum of the products of these halves. It is added to others outside the tensor cores, which truncate sums."""

    def add(product: Any) -> Any:
        for i, j in pairs:
            mosaic_gpu.wgmma(product, left[i], right[j])
        return product[...]

    return pl.run_scoped(add, mosaic_gpu.WGMMAAccumulatorRef((PIXELS, channels), jnp.dtype("float32")))


def take(refs: Sequence[Ref], *sizes: int) -> list[Sequence[Ref]]:
    """So many of the references each, from the first."""
    ends = list(itertools.accumulate(sizes))
    return [refs[end - size : end] for size, end in zip(sizes, ends, strict=True)]
