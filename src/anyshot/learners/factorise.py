"""Eigenvalues, solutions of symmetric systems, and products; LAPACK gets one matrix after another on a CPU.

Given several matrices, jaxlib shares them among the threads that run the program, and the thread that asked waits for
the others. If all of them wait like this, as two devices did in one program, it hangs for ever. So `jax.vmap` of these
functions is a loop on a CPU. On other platforms it is a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

Matrix = Float[Array, "m m"]


def _one_after_another(function: Callable[..., Any]) -> Callable[..., Any]:
    single = jax.custom_batching.custom_vmap(function)

    def batch(size: int, batched: list[bool], *arrays: Array) -> tuple[Any, Any]:
        given = [a if each else jnp.broadcast_to(a, (size, *a.shape)) for a, each in zip(arrays, batched, strict=True)]

        def loop(*all_: Array) -> Any:
            return lax.map(lambda one: single(*one), all_)

        found = lax.platform_dependent(*given, cpu=loop, default=jax.vmap(function))
        return found, jax.tree.map(lambda _: True, found)

    single.def_vmap(batch)
    return single


_decompose = _one_after_another(lambda matrix: tuple(jnp.linalg.eigh(matrix)))
_solve = _one_after_another(lambda matrix, right: jax.scipy.linalg.solve(matrix, right, assume_a="pos"))


def decompose(matrix: Matrix) -> tuple[Float[Array, " m"], Matrix]:
    """The eigenvalues of a symmetric matrix, and its eigenvectors as columns.

    >>> print(decompose(jnp.diag(jnp.array([2.0, 1.0])))[0])
    [1. 2.]
    """
    values, vectors = _decompose(matrix)
    return values, vectors


def solve_positive(matrix: Matrix, right: Float[Array, "m outputs"]) -> Float[Array, "m outputs"]:
    """M⁻¹ times the right side, for M symmetric with positive eigenvalues. It can be differentiated.

    >>> print(solve_positive(jnp.diag(jnp.array([2.0, 4.0])), jnp.ones((2, 1)))[:, 0])
    [0.5  0.25]
    """
    return lax.custom_linear_solve(lambda x: matmul(matrix, x), right, lambda _, b: _solve(matrix, b), symmetric=True)


def solve_ridge(
    matrix: Matrix, right: Float[Array, "m outputs"], ridge: float | Float[Array, ""]
) -> Float[Array, "m outputs"]:
    """(M + λI)⁻¹ times the right side, for M symmetric without negative eigenvalues. It can be differentiated.

    A λ of less than 10 ε times the trace of M, with ε the precision of its numbers, counts as that much: with less,
    rounding may leave a negative eigenvalue.

    >>> print(solve_ridge(jnp.diag(jnp.array([2.0, 4.0])), jnp.ones((2, 1)), 2.0)[:, 0].round(3))
    [0.25  0.167]
    """
    least = 10 * np.finfo(matrix.dtype).eps * lax.stop_gradient(jnp.trace(matrix))
    return solve_positive(matrix + jnp.maximum(ridge, least) * jnp.eye(len(matrix), dtype=matrix.dtype), right)


def matmul(a: Float[Array, "a b"], b: Float[Array, "b c"]) -> Float[Array, "a c"]:
    """The product of two matrices, with all digits."""
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)  # a GPU would round the factors to 10 bits
