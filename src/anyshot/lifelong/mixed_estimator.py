"""What estimators for classes and for targets share."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from anyshot.errors import InputError
from anyshot.lifelong.from_scratch import fit_classes, fit_targets
from anyshot.lifelong.pretrained import Pretrained
from anyshot.lifelong.progress import Fact, Progress, name_experts
from anyshot.limits import check_whole
from anyshot.tasks.frames import FrameEncoder


class MixedEstimator(BaseEstimator):  # type: ignore[misc]
    """What both estimators share: checks of the inputs, and the mixture of experts."""

    _kind: str  # "classes" or "targets"
    _x: np.ndarray
    _y: np.ndarray
    _numbers: dict[Any, int]  # of the classes, in the order in which they came
    _progress: Progress

    def __init__(self, pretrained: Any = None, random_state: Any = 0) -> None:
        self.pretrained = pretrained
        self.random_state = random_state

    def _begin(self, X: Any) -> None:
        """Forget all labels, and read the file."""
        check_whole("random_state", self.random_state, 0, 2**31 - 1)
        self._learner: Pretrained | None = None
        self._encoder: FrameEncoder | None = None
        if self.pretrained is not None:
            if not isinstance(self.pretrained, str | os.PathLike):
                raise InputError(
                    f"pretrained must be the path of a file that Lifelong.export wrote, got {self.pretrained!r}"
                )
            self._learner = Pretrained(Path(self.pretrained), self._kind, self.random_state)
            self._encoder = self._learner.encoder
        elif isinstance(X, pd.DataFrame) and len(X.select_dtypes(exclude=["number", "bool"]).columns):
            self._encoder = FrameEncoder.fit(X)

    def _check_labelled(self, X: Any, y: Any, *, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        """Inputs as the experts take them, and their labels."""
        numeric = self._kind == "targets"
        if self._encoder is not None:
            validate_data(self, X, y, reset=reset, skip_check_array=True)
            rows = self._encode(X)
            labels = check_array(y, ensure_2d=False, dtype=np.float64 if numeric else None, input_name="y")
            check_consistent_length(rows, labels)
            return rows, labels
        flat, labels = validate_data(
            self, self._flatten(X), y, reset=reset, dtype=self._dtype, multi_output=numeric, y_numeric=numeric
        )
        return self._shape(flat), labels

    def _check_inputs(self, X: Any) -> np.ndarray:
        """Inputs as the experts take them."""
        check_is_fitted(self)
        if self._encoder is not None:
            validate_data(self, X, reset=False, skip_check_array=True)
            return self._encode(X)
        return self._shape(validate_data(self, self._flatten(X), reset=False, dtype=self._dtype))

    def _encode(self, X: Any) -> np.ndarray:
        assert self._encoder is not None
        if not isinstance(X, pd.DataFrame):
            raise InputError(f"X must be a pandas DataFrame like those learned from, got a {type(X).__name__}")
        return self._encoder.encode(X, "X")

    @property
    def _dtype(self) -> type:
        return np.float64 if self._learner is None else np.float32

    def _flatten(self, X: Any) -> Any:
        """Arrays of images as rows of numbers, which is all that scikit-learn knows."""
        return X if self._learner is None else self._learner.flatten(X)

    def _shape(self, flat: Float[np.ndarray, "n numbers"]) -> np.ndarray:
        return flat if self._learner is None else self._learner.unflatten(flat)

    def _observe(self, x: np.ndarray, y: np.ndarray) -> None:
        """Learn labels."""
        for part in self._split(len(y)):
            if self._learner is not None:  # else there is nothing to weigh
                self._adapt()
                predicted = self._predict_each(x[part])
                facts = [Fact.of(predicted[:, number], random=True) for number in range(predicted.shape[1])]
                self._progress = self._progress.follow(facts, y[part])
            self._x, self._y = np.concatenate([self._x, x[part]]), np.concatenate([self._y, y[part]])
        self._adapt()
        weights = self._progress.mixture.weights
        self.weights_ = {"scratch": 1.0} if self._learner is None else name_experts(weights)

    def _split(self, count: int) -> list[slice]:
        """Parts of new labels, each at most as large as all labels before it, so that a few fits are enough."""
        if self._learner is None:
            return [slice(count)]
        before, ends = len(self._y), [0]
        while ends[-1] < count:
            ends.append(min(count, ends[-1] + max(1, before + ends[-1])))
        return [slice(*both) for both in pairwise(ends)]

    def _forget(self, x: np.ndarray, y: np.ndarray) -> None:
        """Have no labels; those to come are like these."""
        self._x, self._y = x[:0], y[:0]
        prior = [1.0] if self._learner is None else self._learner.prior
        self._progress = Progress.start(prior, classification=self._kind == "classes")

    def _adapt(self) -> None:
        """Fit the experts to the labels so far."""
        if self._learner is not None:
            self._learner.adapt(self._x, self._y)
        elif self._kind == "classes":
            self._scratch = fit_classes(self._x, self._y, len(self._numbers))
        else:
            self._scratch = fit_targets(self._x, self._y, self._y.shape[1])

    def _predict_each(self, x: np.ndarray) -> Float[np.ndarray, "experts n outputs"]:
        return self._scratch.predict(x)[None] if self._learner is None else self._learner.predict(x)

    def _mix(self, X: Any) -> Float[np.ndarray, "n outputs"]:
        x = self._check_inputs(X)
        return self._progress.combine(self._predict_each(x))
