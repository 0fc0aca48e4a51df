"""Linear models fitted from scratch: multinomial logistic regression and ridge regression, as scikit-learn has them.

Both minimise the summed loss plus λ|W|²/2, and the bias b is not penalised. So the inputs may be centred, and W lies in
the span of the centred inputs X. If there are fewer datapoints than features, its coordinates in that span are found
instead of W, and X enters by the Gram matrix XXᵀ only. Logistic regression does so on a CPU alone: a GPU is quicker at
products with X than at the eigenvalues of XXᵀ.

Rows that are not `present` are padding. They are zero in the centred X.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Integer

from anyshot.learners.centre import centre
from anyshot.learners.factorise import decompose, matmul
from anyshot.learners.newton import Basis, Matrix, Objective, minimise

Coordinates = Callable[[Matrix], tuple[Basis, Callable[[Matrix], Matrix]]]  # of W, given X; and W from these


class LinearModel(eqx.Module):
    """Outputs (x - middle) W + b for each row x."""

    middle: Float[Array, " features"]
    weight: Float[Array, "features outputs"]
    bias: Float[Array, " outputs"]

    def __call__(self, x: Float[Array, "n features"]) -> Float[Array, "n outputs"]:
        """Outputs for several inputs."""
        return matmul(x - self.middle, self.weight) + self.bias


def fit_logistic(
    x: Float[Array, "n features"],
    y: Integer[Array, " n"],
    present: Bool[Array, " n"],
    classes: int,
    regularisation: float | Float[Array, ""],
) -> LinearModel:
    """Multinomial logistic regression on the classes that have a datapoint.

    The outputs are logits. Those of classes without a datapoint have no meaning: their bias would be minus infinity.

    Args:
        x: the inputs.
        y: the class of each.
        present: which rows are datapoints.
        classes: the number of classes.
        regularisation: λ, the inverse of scikit-learn's C.

    >>> x, y = jnp.array([[0.0], [1.0], [2.0], [3.0]]), jnp.array([0, 0, 2, 2])
    >>> logits = fit_logistic(x, y, jnp.full(4, True), 3, 1.0)(jnp.array([[2.0]]))[0]
    >>> print(f"{jax.nn.sigmoid(logits[2] - logits[0]):.3f}")
    0.618
    """
    middle, centred = centre(x, present)
    of_class = jnp.where(present[:, None], jax.nn.one_hot(y, classes, dtype=x.dtype), 0)
    # For two classes scikit-learn has one vector of weights, our difference of two. Twice the penalty is the same.
    twice = jnp.where(jnp.sum(jnp.any(of_class > 0, axis=0)) == 2, 2, 1)
    penalty = jnp.asarray(regularisation * twice, x.dtype)

    def fit(coordinates_of: Coordinates, centred: Matrix, penalty: Float[Array, ""]) -> tuple[Any, Any]:
        basis, weight_from = coordinates_of(centred)
        found = minimise(Objective(basis, of_class, present, penalty))
        return weight_from(found[:-1]), found[-1]

    in_span, directly = partial(fit, _span), partial(fit, _identity)
    if x.shape[0] > x.shape[1]:
        return LinearModel(middle, *directly(centred, penalty))
    return LinearModel(middle, *lax.platform_dependent(centred, penalty, cpu=in_span, default=directly))


def fit_ridge(
    x: Float[Array, "n features"],
    y: Float[Array, "n outputs"],
    present: Bool[Array, " n"],
    regularisation: float | Float[Array, ""],
) -> LinearModel:
    """Ridge regression in closed form. Without datapoints the outputs are 0.

    Args:
        x: the inputs.
        y: the targets.
        present: which rows are datapoints.
        regularisation: λ, scikit-learn's alpha.

    >>> x, y = jnp.array([[0.0], [1.0], [2.0], [9.0]]), jnp.array([[0.0], [1.0], [2.0], [-5.0]])
    >>> print(fit_ridge(x, y, jnp.arange(4) < 3, 2.0)(jnp.array([[1.0], [2.0]]))[:, 0])
    [1.  1.5]
    """
    (middle, centred), (bias, targets) = centre(x, present), centre(y, present)
    if x.shape[0] <= x.shape[1]:
        weight = matmul(centred.T, _solve(matmul(centred, centred.T), targets, regularisation))
    else:
        weight = _solve(matmul(centred.T, centred), matmul(centred.T, targets), regularisation)
    return LinearModel(middle, weight, bias)


def _identity(x: Float[Array, "n features"]) -> tuple[Basis, Callable[[Matrix], Matrix]]:
    """W itself."""
    return Basis(partial(matmul, x), partial(matmul, x.T), x.shape[1]), lambda coordinates: coordinates


def _span(x: Float[Array, "n features"]) -> tuple[Basis, Callable[[Matrix], Matrix]]:
    """Coordinates in the span of the rows of x, which are centred; and W from these."""
    # XXᵀ = UΛUᵀ, and W = XᵀUΛ^-½ C. Directions without length are left out. With W = XᵀA they would grow by rounding
    # in A, and with equal inputs of different classes float32 was off by 0.03.
    values, vectors = decompose(matmul(x, x.T))
    there = values > x.shape[0] * np.finfo(x.dtype).eps * jnp.max(values)
    root = jnp.sqrt(jnp.where(there, values, 0))
    inverse = jnp.where(there, 1 / jnp.where(there, root, 1), 0)
    rows = vectors * root  # XW = UΛ^½ C
    back = partial(matmul, matmul(x.T, vectors * inverse))
    return Basis(partial(matmul, rows), partial(matmul, rows.T), x.shape[0]), back


def _solve(matrix: Float[Array, "m m"], right: Float[Array, "m outputs"], ridge: Any) -> Float[Array, "m outputs"]:
    """(M + ridge I)⁻¹ times the right side, for M symmetric without negative eigenvalues."""
    # By eigenvalues: in float32 Cholesky's method gives NaN if the largest is ten million times the ridge.
    values, vectors = decompose(matrix)
    return matmul(vectors, matmul(vectors.T, right) / (jnp.maximum(values, 0) + ridge)[:, None])
