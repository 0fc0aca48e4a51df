"""What was predicted before each label was seen, and how good that was."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from anyshot.lifelong.mixture import Mixture, smooth

EXPERTS = ("learner", "scratch", "kernel", "features")  # the last only if the learner has features
SCALE = 1.0  # of the errors in a regression that are expected at first


@dataclass(frozen=True)
class Fact:
    """What each expert predicted of one input before its label was seen.

    Attributes:
        predicted: the probability of each class that was known then, or the target; one line per expert.
        random: whether the input was drawn at random.
    """

    predicted: Float[np.ndarray, "experts outputs"]
    random: bool = True

    @classmethod
    def of(cls, predicted: Float[np.ndarray, "experts outputs"], random: bool) -> Fact:
        """With six digits, which are enough, so that what is in memory is what is stored."""
        return cls(np.array([[float(f"{value:.6g}") for value in line] for line in predicted]), random)

    def to_json(self) -> dict[str, Any]:
        """As the store keeps it."""
        return {"predicted": self.predicted.tolist(), "random": self.random}

    @classmethod
    def from_json(cls, fact: dict[str, Any]) -> Fact:
        """As it was stored."""
        return cls(np.array(fact["predicted"], np.float64), bool(fact["random"]))


@dataclass(frozen=True, eq=False)
class Progress:
    """The experts' weights, and what they follow from.

    Attributes:
        mixture: the weights.
        errors: the squared errors of each expert in a regression, one line each; None for classes.
    """

    mixture: Mixture
    errors: Float[np.ndarray, "experts n"] | None = None

    @classmethod
    def start(cls, prior: Sequence[float], *, classification: bool) -> Progress:
        """Before the first label."""
        return cls(Mixture.start(prior=np.array(prior)), None if classification else np.full((len(prior), 1), SCALE**2))

    def combine(self, predicted: Float[np.ndarray, "experts ..."]) -> Float[np.ndarray, "..."]:
        """The weighted mean of what the experts predict."""
        return np.tensordot(self.mixture.weights, predicted, axes=1)

    def follow(self, facts: Sequence[Fact], y: np.ndarray) -> Progress:
        """After these labels, of which each was predicted as `facts` say."""
        progress = self
        for fact, label in zip(facts, y, strict=True):
            progress = progress.update(fact, label)[0]
        return progress

    def update(self, fact: Fact, label: Any) -> tuple[Progress, Float[np.ndarray, " experts"]]:
        """After one more label; and the loss of each expert on it.

        For a class the loss is -log p of the label, where p is mixed with a little of the uniform distribution. For a
        target it is that of a Gaussian around the prediction, whose variance is the mean squared error so far.
        """
        if self.errors is None:
            number, predicted = int(label), fact.predicted
            if number >= predicted.shape[1]:  # a class that was not known then
                predicted = np.pad(predicted, ((0, 0), (0, number + 1 - predicted.shape[1])))
            losses = -np.log(smooth(predicted)[:, number])
            return Progress(self.mixture.update(losses)), losses
        variance, new = self.errors.mean(axis=1), (fact.predicted - label) ** 2
        losses = 0.5 * (np.log(2 * math.pi * variance)[:, None] + new / variance[:, None]).sum(axis=1)
        return Progress(self.mixture.update(losses), np.concatenate([self.errors, new], axis=1)), losses


def name_experts(values: np.ndarray) -> dict[str, Any]:
    """The value of each expert, by its name.

    >>> name_experts(np.array([0.2, 0.5, 0.3]))
    {'learner': 0.2, 'scratch': 0.5, 'kernel': 0.3}
    """
    return dict(zip(EXPERTS, values.tolist(), strict=False))


def tabulate(
    start: Progress, facts: Sequence[Fact], y: np.ndarray, classes: Sequence[Any], ids: np.ndarray
) -> pd.DataFrame:
    """A row for each label, with what the mixture and each expert had predicted.

    Args:
        start: before the first label.
        facts: of all labels of the task.
        y: the labels: numbers of classes, or targets.
        classes: their names; [] for a regression.
        ids: the numbers of the labels.
    """
    progress, rows = start, []
    for fact, label, number in zip(facts, y, ids, strict=True):
        weights, mixed = progress.mixture.weights, progress.combine(fact.predicted)
        before, (progress, losses) = progress.mixture.loss, progress.update(fact, label)
        row: dict[str, Any] = {"id": int(number), "random": fact.random, "loss": progress.mixture.loss - before}
        row |= {f"loss.{name}": loss for name, loss in name_experts(losses).items()}
        row |= {f"weight.{name}": weight for name, weight in name_experts(weights).items()}
        if classes:
            row |= {"label": classes[int(label)], "predicted": classes[int(mixed.argmax())]}
            row["right"] = bool(mixed.argmax() == label)
            tops = fact.predicted.argmax(axis=1)
            row |= {f"right.{name}": bool(top == label) for name, top in name_experts(tops).items()}
        else:
            row |= {"label": label.tolist(), "predicted": mixed.tolist(), "error": float(np.mean((mixed - label) ** 2))}
            errors = np.mean((fact.predicted - label) ** 2, axis=1)
            row |= {f"error.{name}": error for name, error in name_experts(errors).items()}
        rows.append(row)
    return pd.DataFrame(rows)
