"""The two linear maps behind a 3x3 convolution: `unfold` an image into patches, `fold` patches back (its adjoint).

Padding is one pixel on each side; strides are 1 and 2. A patch holds nine pixels row by row, each with all channels.
Each map has a form for CPUs beside the plain one, because XLA makes different things of them, not because the result
differs. Timed inside a loop on one core, with the matrix product they feed: for 20 images of 28x28x3, 133 us against
264 us (unfold); for 20 images of 14x14x32, 271 us against 506 us (fold). Fewer kernels also
mean less compile time.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

KERNEL = 3


def out_size(size: int, stride: int) -> int:
    """Number of patches along one side of an image.

    >>> out_size(28, 2), out_size(7, 2), out_size(7, 1)
    (14, 4, 7)
    """
    return (size - 1) // stride + 1


def unfold(x: Float[Array, "n h w c"], stride: int) -> Float[Array, "n i j 9*c"]:
    """Patches of each image, as one concatenation of nine shifted copies: one kernel on a GPU."""
    rows, columns = out_size(x.shape[1], stride), out_size(x.shape[2], stride)
    padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    shifted = [
        padded[:, di : di + stride * (rows - 1) + 1 : stride, dj : dj + stride * (columns - 1) + 1 : stride]
        for di in range(KERNEL)
        for dj in range(KERNEL)
    ]
    return jnp.concatenate(shifted, axis=-1)


def unfold_by_sides(x: Float[Array, "n h w c"], stride: int) -> Float[Array, "n i j 9*c"]:
    """The same patches in two passes, three columns side by side and then three rows: long runs of memory."""
    n, height, width, channels = x.shape
    rows, columns = out_size(height, stride), out_size(width, stride)
    to_whole_strides = ((0, 0), (1, stride * rows + 1 - height), (1, stride * columns + 1 - width), (0, 0))
    # The barriers keep XLA from fusing the passes into one that decides anew for every single number where it is from.
    padded = lax.optimization_barrier(jnp.pad(x, to_whole_strides))
    if stride == 1:
        three_columns = jnp.concatenate([padded[:, :, dj : dj + columns] for dj in range(KERNEL)], axis=-1)
        three_columns = lax.optimization_barrier(three_columns)
        return lax.optimization_barrier(
            jnp.concatenate([three_columns[:, di : di + rows] for di in range(KERNEL)], axis=-1)
        )
    paired = padded.reshape(n, rows + 1, 2, columns + 1, 2 * channels)  # two pixels of a row lie side by side in memory
    even, odd = lax.optimization_barrier(
        tuple(jnp.concatenate([paired[:, :, r, :-1], paired[:, :, r, 1:, :channels]], axis=-1) for r in range(2))
    )
    return lax.optimization_barrier(jnp.concatenate([even[:, :-1], odd[:, :-1], even[:, 1:]], axis=-1))


def fold(
    patches: Float[Array, "n i j k"], stride: int, height: int, width: int
) -> Float[Array, "n {height} {width} c"]:
    """Sum every patch entry into the pixel it was read from, as one sum of nine spread-out arrays."""
    n, rows, columns, size = patches.shape
    channels = size // KERNEL**2
    zero = jnp.zeros((), patches.dtype)
    total = jnp.zeros((n, height, width, channels), patches.dtype)
    for di in range(KERNEL):
        for dj in range(KERNEL):
            tap = KERNEL * di + dj
            below = height - (di - 1) - stride * (rows - 1) - 1
            right = width - (dj - 1) - stride * (columns - 1) - 1
            spread = ((0, 0, 0), (di - 1, below, stride - 1), (dj - 1, right, stride - 1), (0, 0, 0))
            total += lax.pad(patches[..., tap * channels : (tap + 1) * channels], zero, spread)
    return total


def fold_by_class(
    patches: Float[Array, "n i j k"], stride: int, height: int, width: int
) -> Float[Array, "n {height} {width} c"]:
    """The same sum, by classes of pixels.

    Pixels whose coordinates agree modulo the stride are reached by the same taps, so each such class is a sum of whole
    shifted arrays, written into its place: 9 additions per `stride**2` pixels.
    """
    n, rows, columns, size = patches.shape
    channels = size // KERNEL**2
    taps = patches.reshape(n, rows, columns, KERNEL, KERNEL, channels)
    down, across = -(-height // stride), -(-width // stride)  # pixels of each class
    zero = jnp.zeros((), patches.dtype)
    image = jnp.zeros((n, down, stride, across, stride, channels), patches.dtype)
    for row in range(stride):
        for column in range(stride):
            total = jnp.zeros((n, down, across, channels), patches.dtype)
            for di in range(KERNEL):
                for dj in range(KERNEL):
                    if (row + 1 - di) % stride or (column + 1 - dj) % stride:
                        continue
                    i, j = (row + 1 - di) // stride, (column + 1 - dj) // stride
                    shift = ((0, 0, 0), (-i, down - rows + i, 0), (-j, across - columns + j, 0), (0, 0, 0))
                    total += lax.pad(taps[:, :, :, di, dj], zero, shift)
            image = lax.dynamic_update_slice(image, total[:, :, None, :, None], (0, 0, row, 0, column, 0))
    return image.reshape(n, down * stride, across * stride, channels)[:, :height, :width]
