"""Exponential weights with fixed share: several predictors at once, weighed by what they predicted of past labels.

For each label every expert has a loss: minus the logarithm of the probability that it gave to the label. The mixture
predicts with the weighted mean of the experts' probabilities, so its loss is -ln Σ w_i exp(-loss_i). After label t of a
task, w_i becomes w_i exp(-loss_i), divided by the sum of these, and then a share of 1/(t + 1) of the weight is spread
over the experts as at the start. `anyshot.lifelong.mixture` has the same rule in NumPy, with its bound and the proof.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

UNIFORM_SHARE = 0.01  # of the probabilities that are judged, so that no loss exceeds ln(100 classes)
FIRST_LABELS = 8  # of a task say what the experts are worth at the start
TASKS = 20  # the weights to start with are a mean over about so many tasks
FIRST_SHARE = 0.1  # of the very first weights, so that no weight becomes zero


class Weights(eqx.Module):
    """The weights of the experts in a task.

    Attributes:
        log: their logarithms, for the next prediction.
        count: the number of labels of the task so far.
        early: the experts' losses summed over the first labels of the task.
    """

    log: Float[Array, " experts"]
    count: Int[Array, ""]
    early: Float[Array, " experts"]

    @classmethod
    def start(cls, log_prior: Float[Array, " experts"]) -> Weights:
        """The weights before the first label."""
        return cls(log_prior, jnp.zeros((), jnp.int32), jnp.zeros_like(log_prior))

    def update(
        self, losses: Float[Array, "n experts"], present: Bool[Array, " n"], log_prior: Float[Array, " experts"]
    ) -> Weights:
        """The weights after more labels.

        Args:
            losses: of the experts, for each label.
            present: which rows are labels; the others are padding.
            log_prior: the logarithms of the weights at the start.

        >>> first = jnp.log(jnp.array([0.5, 0.5]))  # one expert gives each label a probability of 0.9, the other 0.3
        >>> losses = jnp.tile(-jnp.log(jnp.array([0.9, 0.3])), (3, 1))
        >>> print(jnp.exp(Weights.start(first).update(losses, jnp.full(3, True), first).log).round(2))
        [0.79 0.21]
        """

        def step(old: Weights, label: tuple[Array, Array]) -> tuple[Weights, None]:
            loss, is_present = label
            count = old.count + 1
            share = 1 / (count + 1)
            posterior = jax.nn.log_softmax(old.log - loss)
            log = jnp.logaddexp(jnp.log1p(-share) + posterior, jnp.log(share) + log_prior)
            new = Weights(log, count, old.early + jnp.where(count <= FIRST_LABELS, loss, 0))
            return jax.tree.map(lambda a, b: jnp.where(is_present, a, b), new, old), None

        return lax.scan(step, self, (losses, present))[0]


def learn_prior(
    log_prior: Float[Array, " experts"], weights: Weights, first: Float[Array, " experts"]
) -> Float[Array, " experts"]:
    """The logarithms of the weights to start the next task with.

    What Bayes's rule gives each expert for the first labels of the task is averaged over tasks, the last ones most.

    Args:
        log_prior: those of the task that ends.
        weights: at its end.
        first: the weights before any task.
    """
    deserved = (1 - FIRST_SHARE) * jax.nn.softmax(-weights.early) + FIRST_SHARE * first
    learned = jnp.log(jnp.exp(log_prior) * (1 - 1 / TASKS) + deserved / TASKS)
    return jnp.where(weights.count > 0, learned, log_prior)


def class_losses(
    log_probabilities: Float[Array, "n experts classes"], y: Int[Array, " n"]
) -> Float[Array, "n experts"]:
    """The loss of each expert for each label, with 1 % of the uniform distribution mixed into its prediction."""
    given = jnp.take_along_axis(log_probabilities, y.astype(jnp.int32)[:, None, None], axis=2)[..., 0]
    uniform = UNIFORM_SHARE / log_probabilities.shape[2]
    return -jnp.log((1 - UNIFORM_SHARE) * jnp.exp(given) + uniform)


class Errors(eqx.Module):
    """The squared errors of the experts in a regression.

    The loss of a target is that of a Gaussian around the prediction. Its variance is the expert's mean squared error so
    far, with an error of 1 before the first label.

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

    def update(
        self, differences: Float[Array, "n experts outputs"], present: Bool[Array, " n"]
    ) -> tuple[Float[Array, "n experts"], Errors]:
        """The losses of labels, and the errors after them.

        Args:
            differences: of predictions and targets.
            present: which are of labels; the others are padding.
        """
        outputs = differences.shape[2]
        squares = jnp.where(present[:, None], jnp.sum(differences**2, axis=2), 0)

        def step(old: Errors, label: tuple[Array, Array]) -> tuple[Errors, Array]:
            square, is_present = label
            variance = old.total / old.count
            loss = 0.5 * (outputs * jnp.log(2 * jnp.pi * variance) + square / variance)
            return Errors(old.total + square, old.count + outputs * is_present), loss

        errors, losses = lax.scan(step, self, (squares, present))
        return losses, errors
