"""Logarithmic pooling: several predictors at once, each raised to a power that is learned.

With p_i(y) the probability that expert i gives to a label y, the pool predicts

    p(y) = Π_i p_i(y)^v_i / Σ_z Π_i p_i(z)^v_i.

So experts that know different things add up what they know, where a mean of their probabilities is never surer than the
surest of them. In a regression p_i is a Gaussian of precision τ_i around what expert i predicts. The pool is then a
Gaussian too, of precision Σ v_i τ_i, around the mean of the predictions weighed by v_i τ_i.

The loss -ln p(y) is convex in v. After each label, which the experts predicted before they saw it, v follows by
exponentiated gradient (Kivinen and Warmuth 1997):

    v_i <- v_i exp(-η g_i),  with g_i = ∂(-ln p(y)) / ∂v_i.

There is one v for tasks with no label, one for 1 and 2 labels, one for 3 to 6, and so on, learned from all tasks.

Bound. Of T labels with the same v, whatever they are, and for every u ≥ 0, the sum of the losses is at most

    Σ_i (u_i ln(u_i / v_i) - u_i + v_i) / η  +  Σ_t Σ_i v_ti (exp(-η g_ti) - 1 + η g_ti) / η

above that of the powers u, with v_i the first and v_ti the t-th value. (With D the bracket of the first term,
D(u, v_t) - D(u, v_t+1) = Σ_i -η u_i g_ti + v_ti - v_ti exp(-η g_ti); add up, and use that the loss is convex.)
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PyTree

RATE = 0.05  # η
UNIFORM_SHARE = 0.01  # of the probabilities that are pooled, so that no expert can rule out a class
STEEPEST = 10.0  # the largest |g_i|; only errors of a regression, which have no bound, come to it
COUNTS = 16  # the numbers of labels that have their own v: 0, 1 and 2, 3 to 6, ... and from 32,767 on


class Powers(eqx.Module):
    """What v is, for each number of labels.

    Attributes:
        log: the logarithms of v.
        count: the number of labels of the current task so far.
    """

    log: Float[Array, "counts experts"]
    count: Int[Array, ""]

    @classmethod
    def start(cls, first: Float[Array, " experts"]) -> Powers:
        """The same v for each number of labels."""
        return cls(jnp.tile(jnp.log(first), (COUNTS, 1)), jnp.zeros((), jnp.int32))

    def at(self, count: Int[Array, ""]) -> Float[Array, " experts"]:
        """The powers for a task with so many labels."""
        return jnp.exp(self.log[_kind(count)])

    def update(
        self, loss: Callable[..., Float[Array, ""]], labels: PyTree[Array], present: Bool[Array, " n"]
    ) -> Powers:
        """The powers after more labels of the current task.

        Args:
            loss: -ln p of a label, as a function of v and of a row of `labels`.
            labels: for each label, itself and what the experts predicted of it.
            present: which rows are labels; the others are padding.
        """

        def step(old: Powers, row: tuple[PyTree[Array], Array]) -> tuple[Powers, None]:
            label, is_present = row
            slope = jnp.clip(jax.grad(loss)(old.at(old.count), label), -STEEPEST, STEEPEST)
            log = old.log.at[_kind(old.count)].add(-RATE * slope)
            new = Powers(log, old.count + 1)
            return jax.tree.map(lambda a, b: jnp.where(is_present, a, b), new, old), None

        return lax.scan(step, self, (labels, present))[0]

    def end_task(self) -> Powers:
        """The powers before the first label of the next task."""
        return Powers(self.log, jnp.zeros_like(self.count))


def _kind(count: Int[Array, ""]) -> Int[Array, ""]:
    """Which v a task with so many labels has: the whole part of log2(count + 1)."""
    return jnp.minimum(31 - lax.clz(count.astype(jnp.int32) + 1), COUNTS - 1)


def pool_classes(
    powers: Float[Array, " experts"], log_probabilities: Float[Array, "... experts classes"]
) -> Float[Array, "... classes"]:
    """The logarithm of p of each class.

    >>> agreeing = jnp.log(jnp.array([[0.8, 0.2], [0.8, 0.2]]))  # what two experts give to two classes
    >>> for powers in (jnp.array([0.5, 0.5]), jnp.array([1.0, 1.0])):
    ...     print(*(f"{p:.2f}" for p in jnp.exp(pool_classes(powers, agreeing))))
    0.80 0.20
    0.94 0.06
    """
    uniform = UNIFORM_SHARE / log_probabilities.shape[-1]
    given = jnp.log((1 - UNIFORM_SHARE) * jnp.exp(log_probabilities) + uniform)
    return jax.nn.log_softmax(jnp.sum(powers[:, None] * given, axis=-2))


def pool_targets(
    powers: Float[Array, " experts"], variances: Float[Array, " experts"], targets: Float[Array, "... experts outputs"]
) -> tuple[Float[Array, "... outputs"], Float[Array, ""]]:
    """The mean of the pool, and its precision.

    >>> mean, precision = pool_targets(jnp.ones(2), jnp.array([1.0, 0.25]), jnp.array([[0.0], [1.0]]))
    >>> print(mean, precision)
    [0.8] 5.0
    """
    precisions = powers / variances
    total = jnp.sum(precisions)
    return jnp.sum((precisions / total)[:, None] * targets, axis=-2), total


def class_loss(
    powers: Float[Array, " experts"], label: tuple[Float[Array, "experts classes"], Int[Array, ""]]
) -> Float[Array, ""]:
    """-ln p of a class, from what the experts gave to all classes."""
    log_probabilities, y = label
    return -pool_classes(powers, log_probabilities)[y]


def target_loss(
    powers: Float[Array, " experts"],
    label: tuple[Float[Array, "experts outputs"], Float[Array, " experts"], Float[Array, " outputs"]],
) -> Float[Array, ""]:
    """-ln p of a target, from what the experts predicted and the variances of their errors before it."""
    predicted, variances, y = label
    mean, precision = pool_targets(powers, variances, predicted)
    return 0.5 * (precision * jnp.sum((y - mean) ** 2) - y.shape[0] * jnp.log(precision / (2 * jnp.pi)))


class Errors(eqx.Module):
    """The squared errors of the experts in a regression, with one error of 1 before the first label of a task.

    Attributes:
        total: their sums.
        count: the number of errors.
    """

    total: Float[Array, " experts"]
    count: Float[Array, ""]

    @classmethod
    def start(cls, experts: int) -> Errors:
        """Before the first label."""
        return cls(jnp.ones(experts), jnp.ones(()))

    @property
    def variances(self) -> Float[Array, " experts"]:
        """The mean squared error of each expert."""
        return self.total / self.count

    def update(
        self, differences: Float[Array, "n experts outputs"], present: Bool[Array, " n"]
    ) -> tuple[Float[Array, "n experts"], Errors]:
        """The variances before each label, and the errors after all.

        Args:
            differences: of predictions and targets.
            present: which are of labels; the others are padding.
        """
        squares = jnp.where(present[:, None], jnp.sum(differences**2, axis=2), 0)

        def step(old: Errors, label: tuple[Array, Array]) -> tuple[Errors, Array]:
            square, is_present = label
            return Errors(old.total + square, old.count + differences.shape[2] * is_present), old.variances

        errors, variances = lax.scan(step, self, (squares, present))
        return variances, errors
