"""A linear model on a task's inputs and on the learner's features of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from anyshot.lifelong.from_scratch import FromScratch, fit_classes, fit_targets, flatten

STRENGTH = 10.0  # chosen on seed 10 of `benchmarks/own_tasks.py`


@dataclass(frozen=True)
class OnFeatures:
    """Logistic or ridge regression on inputs and features together.

    Attributes:
        linear: the model.
        scale: that of the features, so that they are as long as the inputs.
    """

    linear: FromScratch
    scale: float

    def predict(self, x: np.ndarray, features: Float[np.ndarray, "n features"]) -> Float[np.ndarray, "n outputs"]:
        """The probability of each class, or the target, for each input."""
        return self.linear.predict(join(x, features, self.scale))


def fit_on_features(
    x: np.ndarray, features: Float[np.ndarray, "n features"], y: np.ndarray, outputs: int, *, classification: bool
) -> OnFeatures:
    """Fit a linear model to the labels of a task.

    Args:
        x: inputs.
        features: of them.
        y: numbers of classes, or targets.
        outputs: the number of classes, or of numbers in a target.
        classification: whether labels are classes.

    >>> x, features = np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [1.0], [4.0]])
    >>> model = fit_on_features(x, features, features, 1, classification=False)
    >>> print(model.predict(np.array([[3.0]]), np.array([[9.0]])).round(1))
    [[8.1]]
    """
    lengths = [float(np.sum(part.astype(np.float64) ** 2)) for part in (flatten(x), features)]
    scale = math.sqrt(lengths[0] / lengths[1]) if all(lengths) else 1.0
    joined = join(x, features, scale)
    if classification:
        return OnFeatures(fit_classes(joined, y.astype(np.int64), outputs, STRENGTH), scale)
    return OnFeatures(fit_targets(joined, y, outputs, STRENGTH), scale)


def join(x: np.ndarray, features: Float[np.ndarray, "n features"], scale: float) -> Float[np.ndarray, "n both"]:
    """Inputs and features side by side.

    >>> join(np.array([[1.0, 2.0]]), np.array([[3.0]]), 10.0)
    array([[ 1.,  2., 30.]])
    """
    return np.concatenate([flatten(x), scale * features.astype(np.float64)], axis=1)
