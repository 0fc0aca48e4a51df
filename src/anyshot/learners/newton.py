"""Newton's method with conjugate gradients, for multinomial logistic regression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

MOST_NEWTON_STEPS, MOST_CG_STEPS = 50, 200
SHORTEST = 1e-6  # of the parts of a step of Newton's method that are tried
LOWEST = -1e30  # the logit of a class that is not there

Matrix = Float[Array, "_ _"]


class Basis(NamedTuple):
    """Coordinates of the weights.

    They are W itself, its coordinates in the directions that the datapoints span, or the coefficients of f with a
    kernel.

    Attributes:
        logits: XW, from coordinates times the metric.
        slope: the coordinates of XᵀR, for R with a row for each datapoint.
        size: the number of rows of coordinates.
        metric: coordinates times the metric. |W|² is their product with the coordinates.
    """

    logits: Callable[[Matrix], Matrix]
    slope: Callable[[Matrix], Matrix]
    size: int
    metric: Callable[[Matrix], Matrix] = lambda coordinates: coordinates


class Objective(NamedTuple):
    """The cross entropy of softmax(XW + b), plus λ|W|²/2, as a function of a matrix: coordinates of W, and a row b.

    Gradient and curvature are those in the inner product of W and √n b. With n, the number of datapoints, the curvature
    is about the same for b as for W. `image` is a matrix times the metric of this inner product.
    """

    basis: Basis
    of_class: Matrix
    present: Bool[Array, " n"]
    penalty: Float[Array, ""]  # λ

    @property
    def datapoints(self) -> Float[Array, ""]:
        """n, or 1 if there is none."""
        return jnp.maximum(jnp.sum(self.present), 1).astype(self.of_class.dtype)

    @property
    def seen(self) -> Bool[Array, " classes"]:
        """Which classes have a datapoint."""
        return jnp.any(self.of_class > 0, axis=0)

    def image(self, at: Matrix) -> Matrix:
        """A matrix times the metric."""
        return jnp.concatenate([self.basis.metric(at[:-1]), self.datapoints * at[-1:]])

    def logits(self, image: Matrix) -> Matrix:
        """XW + b."""
        return self.basis.logits(image[:-1]) + image[-1] / self.datapoints

    def log_probabilities(self, image: Matrix) -> Matrix:
        """Those of the classes that have a datapoint."""
        return jax.nn.log_softmax(jnp.where(self.seen, self.logits(image), LOWEST), axis=1)

    def probabilities(self, image: Matrix) -> Matrix:
        """softmax(XW + b), and 0 for padding."""
        return jnp.where(self.present[:, None], jnp.exp(self.log_probabilities(image)), 0)

    def value(self, at: Matrix, image: Matrix) -> Float[Array, ""]:
        """The objective."""
        loss = -jnp.sum(jnp.where(self.of_class > 0, self.log_probabilities(image), 0))
        return loss + self.penalty / 2 * jnp.sum(at[:-1] * image[:-1])

    def gradient(self, at: Matrix, image: Matrix) -> Matrix:
        """Its first derivative."""
        return self._pull_back(at, self.probabilities(image) - self.of_class)

    def curvature(self, p: Matrix, change: Matrix, change_image: Matrix) -> Matrix:
        """The second derivative where the probabilities are p, times a change."""
        moved = self.logits(change_image)
        return self._pull_back(change, p * (moved - jnp.sum(p * moved, axis=1, keepdims=True)))

    def _pull_back(self, at: Matrix, by_logits: Matrix) -> Matrix:
        """A derivative by W and b, from that of the loss by the logits."""
        of_bias = jnp.sum(by_logits, axis=0, keepdims=True) / self.datapoints
        found = jnp.concatenate([self.basis.slope(by_logits) + self.penalty * at[:-1], of_bias])
        # The same change of all logits changes nothing, so it has no curvature, and rounding must not go there.
        mean = jnp.sum(jnp.where(self.seen, found, 0), axis=1, keepdims=True) / jnp.maximum(jnp.sum(self.seen), 1)
        return jnp.where(self.seen, found - mean, 0)


class _Point(NamedTuple):
    """A point on the way to the minimum, and the gradient there."""

    at: Matrix
    image: Matrix
    gradient: Matrix
    gradient_image: Matrix
    steepness: Float[Array, ""]  # the norm of the gradient

    @classmethod
    def of(cls, objective: Objective, at: Matrix) -> _Point:
        image = objective.image(at)
        gradient = objective.gradient(at, image)
        gradient_image = objective.image(gradient)
        return cls(at, image, gradient, gradient_image, jnp.sqrt(jnp.maximum(jnp.sum(gradient * gradient_image), 0)))


def minimise(objective: Objective) -> Matrix:
    """Newton's method with conjugate gradients. Steps are halved until the objective falls or the gradient is halved.

    It ends when the gradient is small, or when rounding keeps it from becoming smaller.
    """
    precision = np.finfo(objective.of_class.dtype).eps
    rows, classes = objective.basis.size + 1, objective.of_class.shape[1]
    start = _Point.of(objective, jnp.zeros((rows, classes), objective.of_class.dtype))

    def step(state: Any) -> Any:
        number, old, _ = state
        # The nearer the minimum, the more exactly the system is solved (Eisenstat and Walker 1996).
        accuracy = jnp.clip(jnp.sqrt(old.steepness / start.steepness), 0.01, 0.25)
        change, change_image = _solve_newton(objective, old, accuracy)
        value, slope = objective.value(old.at, old.image), jnp.sum(old.gradient * change_image)
        rounding = 10 * precision * jnp.abs(value)

        def go(length: Float[Array, ""]) -> tuple[Any, ...]:
            new = _Point.of(objective, old.at + length * change)
            found = objective.value(new.at, new.image)
            # Near the minimum the objective changes by less than rounding, and only the gradient tells. Neither holds
            # where something is NaN.
            falls = found <= value + 1e-4 * length * slope + rounding
            too_long = ~(falls | (new.steepness < old.steepness / 2)) & (length > SHORTEST)
            return length, new, found, too_long

        length, new, found, _ = lax.while_loop(_goes_on, lambda state: go(state[0] / 2), go(jnp.ones_like(value)))
        # Near the minimum each step makes the gradient much smaller, until rounding is all that is left of it.
        fell = found < value - rounding
        better = (length > SHORTEST) & (fell | (new.steepness < old.steepness / 2))
        point = jax.tree.map(lambda a, b: jnp.where(better, a, b), new, old)
        return number + 1, point, better & unfinished(number + 1, point)

    def unfinished(number: Array, point: _Point) -> Bool[Array, ""]:
        return (number < MOST_NEWTON_STEPS) & (point.steepness > precision * start.steepness)

    first = jnp.zeros((), jnp.int32)
    return lax.while_loop(_goes_on, step, (first, start, unfinished(first, start)))[1].at


def _solve_newton(objective: Objective, point: _Point, accuracy: Float[Array, ""]) -> tuple[Matrix, Matrix]:
    """The change for which the curvature times it is minus the gradient, and its image, by conjugate gradients."""
    p = objective.probabilities(point.image)

    def step(state: Any) -> Any:
        number, (change, change_image), left, (ahead, ahead_image), size, _ = state
        curved = objective.curvature(p, ahead, ahead_image)
        length = size / jnp.sum(curved * ahead_image)
        left = left - length * curved
        left_image = objective.image(left)
        new_size = jnp.sum(left * left_image)
        turn = new_size / size
        return (
            number + 1,
            (change + length * ahead, change_image + length * ahead_image),
            left,
            (left + turn * ahead, left_image + turn * ahead_image),
            new_size,
            unfinished(number + 1, new_size),
        )

    def unfinished(number: Array, size: Float[Array, ""]) -> Bool[Array, ""]:
        return (number < MOST_CG_STEPS) & (size > (accuracy * point.steepness) ** 2)

    nothing, down = (jnp.zeros_like(point.at),) * 2, (-point.gradient, -point.gradient_image)
    first, size = jnp.zeros((), jnp.int32), point.steepness**2
    return lax.while_loop(_goes_on, step, (first, nothing, down[0], down, size, unfinished(first, size)))[1]


def _goes_on(state: Any) -> Bool[Array, ""]:
    """Whether a loop goes on: the last part of its state."""
    # A comparison of floats must not stand in the condition itself. `jax.vmap` puts a copy of the condition into the
    # loop's body, XLA may round the two differently, and then a loop never ends (seen on a GPU).
    found: Bool[Array, ""] = state[-1]
    return found
