"""A linear model fitted to a task's own labels alone: what anyone would try first."""

from __future__ import annotations

import functools
import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from threadpoolctl import ThreadpoolController


@dataclass(frozen=True)
class FromScratch:
    """Logistic regression, or ridge regression for targets, with scikit-learn's usual regularisation.

    Attributes:
        model: scikit-learn's model; None while there are no labels of two classes.
        prior: for classes, the share of each among the labels, every class counted once more; for targets their mean.
        count: the number of labels.
    """

    model: Any
    prior: np.ndarray
    count: int

    def predict(self, x: np.ndarray) -> Float[np.ndarray, "n outputs"]:
        """The probability of each class, or the target, for each input."""
        if self.model is None or not len(x):
            return np.tile(self.prior, (len(x), 1))
        flat = flatten(x)
        if isinstance(self.model, Ridge):
            return np.asarray(self.model.predict(flat)).reshape(len(x), -1)
        return share_out(self.prior, self.model.classes_, self.model.predict_proba(flat))


def count_prior(labels: np.ndarray, classes: int) -> Float[np.ndarray, " classes"]:
    """The share of each class among the labels, every class counted once more."""
    return (np.bincount(labels, minlength=classes) + 1.0) / (len(labels) + classes)


def share_out(
    prior: Float[np.ndarray, " classes"], seen: np.ndarray, probabilities: Float[np.ndarray, "n seen"]
) -> Float[np.ndarray, "n classes"]:
    """Probabilities of all classes: one without a label keeps its prior; the others share what is left.

    >>> share_out(np.array([0.5, 0.3, 0.2]), np.array([0, 1]), np.array([[0.25, 0.75]]))
    array([[0.2, 0.6, 0.2]])
    """
    found = np.tile(prior, (len(probabilities), 1))
    found[:, seen] = probabilities * prior[seen].sum()
    return found


def fit_classes(x: np.ndarray, labels: np.ndarray, classes: int, strength: float = 1.0) -> FromScratch:
    """Fit logistic regression.

    Args:
        x: inputs.
        labels: the number of the class of each.
        classes: how many there are.
        strength: how large weights may become: scikit-learn's C.

    >>> model = fit_classes(np.array([[0.0], [1.0], [4.0]]), np.array([0, 0, 1]), classes=3)
    >>> print(model.predict(np.array([[0.0], [4.0]])).round(2))
    [[0.76 0.07 0.17]
     [0.22 0.62 0.17]]
    """
    prior, model = count_prior(labels, classes), None
    if len(np.unique(labels)) > 1:
        # Problems are small: one thread is faster than several that wait for each other, most of all on a busy machine.
        with warnings.catch_warnings(), _threads().limit(limits=1):
            warnings.simplefilter("ignore", ConvergenceWarning)  # a hundred steps are enough for a comparison
            model = _fit_in_span(flatten(x), labels, strength)
    return FromScratch(model, prior, len(labels))


def _fit_in_span(x: Float[np.ndarray, "n inputs"], labels: np.ndarray, strength: float) -> LogisticRegression:
    """Logistic regression. With fewer labels than inputs its weights are found in the span of the inputs.

    The penalty does not change when inputs are turned, and the weights lie in the span of the inputs. So x may be
    replaced by its coordinates there, which are far fewer numbers; with x xᵀ = U Λ Uᵀ they are U Λ^½.
    """
    if len(x) >= x.shape[1]:
        return LogisticRegression(C=strength).fit(x, labels)
    values, vectors = np.linalg.eigh(x @ x.T)
    there = values > len(x) * np.finfo(x.dtype).eps * values[-1]
    root, vectors = np.sqrt(values[there]), vectors[:, there]
    if not len(root):  # all inputs are zero
        root, vectors = np.ones(1), np.zeros((len(x), 1))
    model = LogisticRegression(C=strength).fit(vectors * root, labels)
    model.coef_ = (model.coef_ / root) @ (vectors.T @ x)
    model.n_features_in_ = x.shape[1]
    return model


def fit_targets(x: np.ndarray, targets: np.ndarray, outputs: int, strength: float = 1.0) -> FromScratch:
    """Fit ridge regression.

    Args:
        x: inputs.
        targets: of each.
        outputs: the number of numbers in a target.
        strength: how large weights may become: the inverse of scikit-learn's alpha.

    >>> model = fit_targets(np.array([[0.0], [1.0]]), np.array([[0.0], [2.0]]), outputs=1)
    >>> print(model.predict(np.array([[0.5]])).round(2))
    [[1.]]
    """
    targets = targets.reshape(len(targets), outputs)
    if not len(targets):
        return FromScratch(None, np.zeros(outputs), 0)
    return FromScratch(Ridge(alpha=1 / strength).fit(flatten(x), targets), targets.mean(axis=0), len(targets))


@functools.cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()  # looking for the libraries takes milliseconds, so it is done once


def flatten(x: np.ndarray) -> Float[np.ndarray, "n inputs"]:
    """Each input as a vector of floats; bytes of images are brought to 0..1, as the networks do it."""
    flat = x.reshape(len(x), math.prod(x.shape[1:])).astype(np.float64)
    return flat / 255 if x.dtype == np.uint8 else flat
