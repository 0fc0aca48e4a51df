"""Models with a Gaussian kernel, fitted from scratch: multinomial logistic regression and ridge regression.

The outputs are f(x) + b, where f has a norm |f| that the kernel k(x, z) = exp(-|x - z|² / m) gives it, with m the mean
squared distance of two datapoints. Both models minimise the summed loss plus λ|f|²/2, and b is not penalised. The
solution is f = Σ_i a_i k(x_i, ·) over the datapoints, so that only the matrix K of their k(x_i, x_j) enters.

As b is not penalised, the kernel may be centred: k(x, z) less its means over datapoints. This makes Newton's method
faster, as the largest eigenvalue of K, that of a constant, is gone. Rows that are not `present` are padding.
"""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Integer

from anyshot.learners.centre import centre
from anyshot.learners.factorise import matmul, solve_ridge
from anyshot.learners.newton import Basis, Matrix, Objective, minimise


class Gaussian(eqx.Module):
    """The kernel of some datapoints, centred.

    Attributes:
        points: the datapoints, less `middle` and divided by `length`.
        middle: their mean.
        length: √m, or 1 if all datapoints are the same.
        present: which rows are datapoints.
        means: over datapoints, of the kernel with each datapoint.
    """

    points: Float[Array, "n features"]
    middle: Float[Array, " features"]
    length: Float[Array, ""]
    present: Bool[Array, " n"]
    means: Float[Array, " n"]

    @classmethod
    def of(cls, x: Float[Array, "n features"], present: Bool[Array, " n"]) -> tuple[Gaussian, Matrix]:
        """The kernel of datapoints, and its matrix K, zero for padding."""
        count = jnp.maximum(jnp.sum(present), 1)
        middle, points = centre(x, present)
        largest = jnp.max(jnp.abs(points))  # divided by it, squares neither overflow nor vanish
        points = points / jnp.where(largest > 0, largest, 1)
        spread = jnp.sqrt(2 * jnp.sum(points**2) / jnp.maximum(count - 1, 1))
        points, length = points / jnp.where(spread > 0, spread, 1), jnp.where(spread > 0, largest * spread, 1)
        plain = jnp.where(present[:, None], _kernel(points, points, present), 0)
        made = cls(points, middle, length, present, jnp.sum(plain, axis=0) / count)
        return made, jnp.where(present[:, None], made._centre(plain), 0)

    def __call__(self, x: Float[Array, "m features"]) -> Float[Array, "m n"]:
        """The centred kernel of other inputs with each datapoint."""
        return self._centre(_kernel((x - self.middle) / self.length, self.points, self.present))

    def _centre(self, plain: Float[Array, "m n"]) -> Float[Array, "m n"]:
        count = jnp.maximum(jnp.sum(self.present), 1)
        own = jnp.sum(plain, axis=1, keepdims=True) / count
        return jnp.where(self.present, plain - own - self.means + jnp.sum(self.means) / count, 0)


def _kernel(
    x: Float[Array, "m features"], z: Float[Array, "n features"], present: Bool[Array, " n"]
) -> Float[Array, "m n"]:
    squares = jnp.sum(x**2, axis=1)[:, None] + jnp.sum(z**2, axis=1) - 2 * matmul(x, z.T)
    return jnp.where(present, jnp.exp(-jnp.maximum(squares, 0)), 0)


class KernelModel(eqx.Module):
    """Outputs Σ_i a_i k(x_i, x) + b."""

    kernel: Gaussian
    coefficients: Float[Array, "n outputs"]
    bias: Float[Array, " outputs"]

    def __call__(self, x: Float[Array, "m features"]) -> Float[Array, "m outputs"]:
        """Outputs for several inputs."""
        return matmul(self.kernel(x), self.coefficients) + self.bias


def fit_kernel_logistic(
    x: Float[Array, "n features"],
    y: Integer[Array, " n"],
    present: Bool[Array, " n"],
    classes: int,
    regularisation: float | Float[Array, ""],
) -> KernelModel:
    """Multinomial logistic regression on the classes that have a datapoint. The outputs are logits of these.

    Args:
        x: the inputs.
        y: the class of each.
        present: which rows are datapoints.
        classes: the number of classes.
        regularisation: λ.

    >>> x, y = jnp.array([[0.0], [1.0], [2.0], [3.0]]), jnp.array([0, 0, 2, 0])
    >>> logits = fit_kernel_logistic(x, y, jnp.full(4, True), 3, 0.01)(jnp.array([[2.0], [3.0]]))
    >>> print(jax.nn.sigmoid(logits[:, 2] - logits[:, 0]).round(2))
    [0.87 0.07]
    """
    kernel, matrix = Gaussian.of(x, present)
    of_class = jnp.where(present[:, None], jax.nn.one_hot(y, classes, dtype=matrix.dtype), 0)
    # The coordinates of f are its coefficients a, and |f|² is aᵀKa. As K is centred, it takes no notice of the mean of
    # a, in which rounding would add up.
    basis = Basis(lambda image: image, partial(_less_mean, present), x.shape[0], partial(matmul, matrix))
    found = minimise(Objective(basis, of_class, present, jnp.asarray(regularisation, matrix.dtype)))
    return KernelModel(kernel, found[:-1], found[-1])


def fit_kernel_ridge(
    x: Float[Array, "n features"],
    y: Float[Array, "n outputs"],
    present: Bool[Array, " n"],
    regularisation: float | Float[Array, ""],
) -> KernelModel:
    """Ridge regression in closed form. Without datapoints the outputs are 0.

    Args:
        x: the inputs.
        y: the targets.
        present: which rows are datapoints.
        regularisation: λ. Values below about 1e-6 times the number of datapoints count as that much.

    >>> x = jnp.linspace(0, 6, 13)[:, None]
    >>> model = fit_kernel_ridge(x, jnp.sin(x), jnp.full(13, True), 0.001)
    >>> print(model(jnp.array([[1.25], [4.75]]))[:, 0].round(2), jnp.sin(jnp.array([1.25, 4.75])).round(2))
    [ 0.95 -1.  ] [ 0.95 -1.  ]
    """
    kernel, matrix = Gaussian.of(x, present)
    bias, targets = centre(y, present)
    coefficients = solve_ridge(matrix, targets, regularisation)
    return KernelModel(kernel, jnp.where(present[:, None], coefficients, 0), bias)


def _less_mean(present: Bool[Array, " n"], slope: Matrix) -> Matrix:
    """Each column less its mean over datapoints. Needed at each step, so without the care that `centre` takes."""
    return jnp.where(present[:, None], slope - jnp.sum(slope, axis=0) / jnp.maximum(jnp.sum(present), 1), 0)
