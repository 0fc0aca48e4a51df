"""Scikit-learn estimators for one task, with what a `Lifelong` has learned from other tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, Shaped
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from anyshot.errors import InputError
from anyshot.lifelong.mixed_estimator import MixedEstimator


class TaskClassifier(ClassifierMixin, MixedEstimator):  # type: ignore[misc]
    """A classifier for one task that needs few labels, if it begins with what was learned from other tasks.

    It predicts with a mixture of experts, as `Task` does: the pretrained learner adapted to the labels, and linear
    models and a kernel on them alone. The labels are gone through in the order given. Each is predicted by models
    fitted to at least half of those before it, and an expert's weight follows from how it has done.

    Inputs are rows of numbers. With a pretrained learner they are what it was learned from: arrays of its shape (or
    flat), or a DataFrame with its columns. Without one, a DataFrame may have columns of any kind.

    Args:
        pretrained: a file that `Lifelong.export` wrote. A class that is known there keeps its output. None leaves
            logistic regression alone.
        random_state: decides which labels the pretrained learner adapts to if there are more than its `max_shots`.

    Attributes:
        classes_: the classes in rising order.
        weights_: how much each expert counts in predictions.
        n_features_in_: the numbers in a row, or the columns of a DataFrame.

    >>> from sklearn.datasets import load_iris
    >>> x, y = load_iris(return_X_y=True)
    >>> classifier = TaskClassifier().fit(x[::5], y[::5])
    >>> print(classifier.predict(x[[0, 50, 100]]), f"{classifier.score(x, y):.2f}")
    [0 1 2] 0.91
    """

    _kind = "classes"

    def fit(self, X: Any, y: Any) -> TaskClassifier:
        """Learn these labels and no others.

        Args:
            X: inputs.
            y: their classes, of which there must be two at least.
        """
        self._begin(X)
        x, labels = self._check_classes(X, y, reset=True)
        self._start(x, labels, fixed=True)
        self._observe(x, self._number(labels))
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> TaskClassifier:
        """Learn these labels, too.

        Args:
            X: inputs.
            y: their classes.
            classes: all that there are, in the first call. Without it, classes are those of the labels that come.
        """
        first = not hasattr(self, "weights_")
        if first:
            self._begin(X)
        x, labels = self._check_classes(X, y, reset=first)
        if first:
            self._start(x, labels if classes is None else classes, fixed=classes is not None)
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise InputError(f"classes is {classes!r}, but they have been {self.classes_.tolist()} so far")
        self._observe(x, self._number(labels))
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n classes"]:
        """The probability of each class in the order of `classes_`, for each input."""
        return self._mix(X)[:, [self._numbers[name] for name in self.classes_.tolist()]]

    def predict(self, X: Any) -> Shaped[np.ndarray, " n"]:
        """The most probable class of each input."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def _check_classes(self, X: Any, y: Any, *, reset: bool) -> tuple[np.ndarray, Shaped[np.ndarray, " n"]]:
        x, labels = self._check_labelled(X, y, reset=reset)
        labels = column_or_1d(labels, warn=True)
        if (missing := pd.isna(labels)).any():
            raise InputError(f"y has no label at index {int(missing.argmax())}; leave such inputs out")
        check_classification_targets(labels)
        return x, labels

    def _start(self, x: np.ndarray, classes: Any, *, fixed: bool) -> None:
        self.classes_, self._fixed = np.unique(classes), fixed
        if fixed and len(self.classes_) < 2:
            raise InputError(
                f"there is one class only, {self.classes_.tolist()[0]!r}; give labels of two, or use partial_fit with "
                "all classes"
            )
        self._numbers = {}
        self._add_classes(self.classes_.tolist())
        self._forget(x, np.zeros(0, np.int64))

    def _number(self, labels: Shaped[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """Numbers of classes, with new classes added."""
        new = [name for name in dict.fromkeys(labels.tolist()) if name not in self._numbers]
        if new and (self._fixed or isinstance(new[0], str) != isinstance(self.classes_.tolist()[0], str)):
            raise InputError(f"y holds {new[0]!r}, but the classes are {self.classes_.tolist()}")
        if new:
            self.classes_ = np.unique(np.concatenate([self.classes_, labels]))
            self._add_classes(new)
        return np.array([self._numbers[name] for name in labels.tolist()], np.int64)

    def _add_classes(self, names: list[Any]) -> None:
        for name in names:
            self._numbers[name] = len(self._numbers)
        if self._learner is not None:
            self._learner.add_classes(names)


class TaskRegressor(RegressorMixin, MixedEstimator):  # type: ignore[misc]
    """A regressor for one task that needs few labels, if it begins with what was learned from other tasks.

    It is made like `TaskClassifier`, with ridge regression from scratch.

    Args:
        pretrained: a file that `Lifelong.export` wrote. None leaves ridge regression alone.
        random_state: decides which labels the pretrained learner adapts to if there are more than its `max_shots`.

    Attributes:
        weights_: how much each expert counts in predictions.
        n_features_in_: the numbers in a row, or the columns of a DataFrame.

    >>> x = np.arange(20.0)[:, None]
    >>> print(TaskRegressor().fit(x, 3 * x[:, 0] + 1).predict([[5.0]]).round(1))
    [16.]
    """

    _kind = "targets"

    def fit(self, X: Any, y: Any) -> TaskRegressor:
        """Learn these labels and no others.

        Args:
            X: inputs.
            y: their targets, one number each or several.
        """
        if hasattr(self, "weights_"):
            del self.weights_
        return self.partial_fit(X, y)

    def partial_fit(self, X: Any, y: Any) -> TaskRegressor:
        """Learn these labels, too.

        Args:
            X: inputs.
            y: their targets, one number each or several.
        """
        first = not hasattr(self, "weights_")
        if first:
            self._begin(X)
        x, targets = self._check_labelled(X, y, reset=first)
        if first:
            self._start(x, targets)
        self._observe(x, self._line_up(targets))
        return self

    def predict(self, X: Any) -> Float[np.ndarray, "n ..."]:
        """The target of each input, in the shape that targets had."""
        mixed = self._mix(X)
        return mixed[:, 0] if self._scalar else mixed

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _start(self, x: np.ndarray, targets: np.ndarray) -> None:
        self._scalar = targets.ndim == 1
        width = 1 if self._scalar else targets.shape[1]
        if self._learner is not None and self._learner.outputs != width:
            raise InputError(
                f"y has {width} numbers for each input, but {self.pretrained} was learned from targets of "
                f"{self._learner.outputs}"
            )
        self._forget(x, np.zeros((0, width)))

    def _line_up(self, targets: np.ndarray) -> Float[np.ndarray, "n outputs"]:
        lines = targets.reshape(len(targets), -1).astype(np.float64)
        if lines.shape[1] != self._y.shape[1]:
            raise InputError(f"y must have {self._y.shape[1]} numbers for each input as before, got {lines.shape[1]}")
        return lines
