"""Logistic regression by scikit-learn, as a reference."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

LARGEST_SLOPE = 1e-7  # of the objective at what counts as its minimum


def fit_reference(
    x: np.ndarray, y: np.ndarray, strength: float, weights: np.ndarray | None = None, intercept: bool = True
) -> LogisticRegression:
    """The minimum of the summed cross entropy plus |W|² / (2 strength), and a check that it is one.

    Losses count as often as their weights say. For two classes scikit-learn has one vector of weights, the
    difference of those of the classes.
    """
    with warnings.catch_warnings():
        # At the minimum rounding may keep its line search from ending; the slopes below tell whether it is there.
        warnings.simplefilter("ignore", ConvergenceWarning)
        how = LogisticRegression(
            C=strength, solver="newton-cholesky", tol=1e-10, max_iter=10_000, fit_intercept=intercept
        )
        model = how.fit(x, y, weights)
    errors = model.predict_proba(x) - (y[:, None] == model.classes_)
    errors = errors if weights is None else errors * weights[:, None]
    errors = errors[:, 1:] if len(model.classes_) == 2 else errors
    slopes = errors.T @ x + model.coef_ / strength
    assert np.max(np.abs(slopes)) < LARGEST_SLOPE
    assert not intercept or np.max(np.abs(errors.sum(axis=0))) < LARGEST_SLOPE
    return model
