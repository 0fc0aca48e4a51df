"""Several predictors at once, each weighed by how well it has predicted this task's labels before seeing them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp, softmax  # type: ignore[import-untyped]

from anyshot.errors import InputError
from anyshot.learners.pool import UNIFORM_SHARE


@dataclass(frozen=True, eq=False)
class Mixture:
    """Exponential weights over N experts, with fixed share.

    For each label, every expert has a loss: minus the logarithm of the probability that it gave to the label. The
    mixture predicts with the weighted mean of the experts' probabilities, so its loss is -ln Σ w_i exp(-loss_i). Then
    w_i is multiplied by exp(-loss_i) (Bayes's rule), and after label t a share of 1/(t + 1) of the weight is spread
    over all experts as at the start.

    Whatever the losses, after n labels the mixture has lost at most

    - ln(1/prior_i) + (1 - prior_i) ln n more than expert i (for four experts of equal prior and 200 labels: 5.4), and
    - ln(1/prior_i) + ln((k + 1)/prior_j) + ln n more than if expert i had predicted the first k labels and expert j all
      later ones.

    Without the share (plain Bayes) the first bound is ln N. But then a model trained from scratch, bad at first and
    good later, must first win back all that it has lost. In simulations of four experts with such learning curves (50
    and 200 labels, 2 and 10 classes) the mean regret to the best expert was 1.1 to 1.4 for plain Bayes, and -35 to +1.6
    with the share, mostly below zero: see `benchmarks/calibration_simulated.py`.

    Attributes:
        log_weights: logarithms of the weights for the next prediction.
        losses: sum of the losses of each expert.
        loss: sum of the mixture's own losses.
        count: number of labels so far.
        prior: the weights at the start.

    >>> mixture = Mixture.start(2)
    >>> for _ in range(3):  # the first expert gave each label a probability of 0.9, the second 0.3
    ...     mixture = mixture.update(-np.log([0.9, 0.3]))
    >>> print(mixture.weights.round(2), mixture.losses.round(2), round(mixture.loss, 2), round(mixture.bound(), 2))
    [0.79 0.21] [0.32 3.61] 1.21 1.56
    """

    log_weights: Float[np.ndarray, " experts"]
    losses: Float[np.ndarray, " experts"]
    loss: float
    count: int
    prior: Float[np.ndarray, " experts"]

    @classmethod
    def start(cls, experts: int | None = None, prior: Float[np.ndarray, " experts"] | None = None) -> Mixture:
        """The mixture before the first label.

        Args:
            experts: their number; all have the same weight.
            prior: or the weight of each at the start, for instance from `learn_prior`.
        """
        if (experts is None) == (prior is None):
            raise InputError(f"give either experts or prior, got experts={experts} and prior={prior}")
        if prior is None:
            if experts is None or experts < 1:
                raise InputError(f"experts must be at least 1, got {experts}")
            prior = np.full(experts, 1 / experts)
        if prior.ndim != 1 or not np.all(prior > 0) or not math.isclose(prior.sum(), 1, rel_tol=1e-6):
            raise InputError(f"prior must hold positive weights that sum to 1, got {prior}")
        return cls(np.log(prior), np.zeros(len(prior)), 0.0, 0, prior)

    @property
    def weights(self) -> Float[np.ndarray, " experts"]:
        """The weight of each expert in the next prediction; they sum to 1."""
        return softmax(self.log_weights)

    @property
    def regret(self) -> float:
        """How much more the mixture has lost than the best expert; negative if it did better than each of them."""
        return self.loss - float(self.losses.min())

    def update(self, losses: Float[np.ndarray, " experts"]) -> Mixture:
        """The mixture after one more label, for which each expert had this loss."""
        if losses.shape != self.losses.shape or not np.all(np.isfinite(losses)):
            raise InputError(
                f"losses must be {len(self.losses)} finite numbers, one for each expert, got {losses}; "
                "`smooth` keeps the losses of probabilities finite"
            )
        joint = self.log_weights - losses
        loss = -float(logsumexp(joint))
        count = self.count + 1
        share = 1 / (count + 1)
        log_weights = np.logaddexp(math.log1p(-share) + joint + loss, math.log(share) + np.log(self.prior))
        return replace(self, log_weights=log_weights, losses=self.losses + losses, loss=self.loss + loss, count=count)

    def bound(self) -> float:
        """What `loss` cannot exceed: the least of L_i - ln prior_i + (1 - prior_i) ln n.

        Proof: exp(-loss) is the sum, over all sequences of experts, of the probability of the sequence (drawn from the
        prior, then drawn anew from it with probability 1/(t + 1) after label t) times exp(-losses along it). One of
        them keeps expert i for all n labels. Its probability is prior_i Π_{t<n} (1 - c/(t + 1)) with c = 1 - prior_i,
        and 1 - c/(t + 1) >= (t/(t + 1))^c, so the product is at least n^-c.
        """
        return float(np.min(self.losses - np.log(self.prior) + (1 - self.prior) * math.log(max(self.count, 1))))


def smooth(probabilities: Float[np.ndarray, "*rest classes"]) -> Float[np.ndarray, "*rest classes"]:
    """Mix each prediction with 1 % of the uniform one, so that no loss exceeds ln(100 * classes).

    >>> smooth(np.array([1.0, 0.0]))
    array([0.995, 0.005])
    """
    return (1 - UNIFORM_SHARE) * probabilities + UNIFORM_SHARE / probabilities.shape[-1]


def learn_prior(
    losses: Float[np.ndarray, "tasks experts"], before: Float[np.ndarray, " experts"]
) -> Float[np.ndarray, " experts"]:
    """Weights for the start of a task: what Bayes's rule gave each expert in past tasks, on average.

    Args:
        losses: for each past task, the sums of the experts' losses over its first labels.
        before: the weights without any past task; they count as one more task, so no weight is zero.

    >>> learn_prior(np.array([[1.0, 9.0], [2.0, 7.0]]), np.array([0.5, 0.5])).round(2)
    array([0.83, 0.17])
    """
    return np.concatenate([softmax(-losses, axis=1), before[None]]).mean(axis=0)
