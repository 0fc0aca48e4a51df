"""The models that predictions are mixed of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import softmax  # type: ignore[import-untyped]

from anyshot.lifelong.engine import Labelled
from anyshot.lifelong.from_scratch import FromScratch, fit_classes, fit_targets
from anyshot.lifelong.learning import Learned, Learning
from anyshot.lifelong.on_features import OnFeatures, fit_on_features
from anyshot.lifelong.record import Record
from anyshot.lifelong.store import Store

STRENGTHS = (1.0, 10.0)  # scikit-learn's C: the usual one, and one for labels with little noise


class Linear(NamedTuple):
    """The linear models of a task.

    Args:
        on_inputs: one for each of `STRENGTHS`.
        on_features: on inputs and features, if the learner has features.
    """

    on_inputs: list[FromScratch]
    on_features: OnFeatures | None


class Experts:
    """What was learned from all tasks, adapted to the labels of one; and linear models on these labels alone.

    Args:
        record: the task.
        store: holds the inputs.
    """

    def __init__(self, record: Record, store: Store) -> None:
        self._record, self._store = record, store
        self._fitted: tuple[int, Learned, Linear] | None = None  # to all labels, at this version of them

    def predict(
        self,
        learning: Learning,
        x: np.ndarray,
        learned: Learned | None = None,
        places: np.ndarray | None = None,
    ) -> Float[np.ndarray, "experts n outputs"]:
        """The probabilities of the task's classes, or the targets, by each expert.

        Args:
            learning: the learner of all tasks.
            x: inputs.
            learned: what the learner and its features use; by default what was learned up to now.
            places: of the labels to use; all by default.
        """
        learned = learned or learning.now
        labelled, y = self._record.labelled(), self._record.y
        if places is not None:
            labelled, y = Labelled(labelled.rows[places], labelled.labels[places]), y[places]
        by_learner = predict_adapted(learning, labelled, self._record.info["slots"], x, learned)
        linear = self._fit(labelled.rows, y, learning, learned) if places is not None else self.fit(learning, learned)
        return np.stack([by_learner, *predict_linear(linear, learning, x, learned)])

    def fit(self, learning: Learning, learned: Learned) -> Linear:
        """The linear models on all labels."""
        version = self._record.version
        if self._fitted is None or self._fitted[0] != version or self._fitted[1] is not learned:
            self._fitted = version, learned, self._fit(self._record.ids, self._record.y, learning, learned)
        return self._fitted[2]

    def _fit(self, rows: np.ndarray, y: np.ndarray, learning: Learning, learned: Learned) -> Linear:
        x = self._store.read(rows) if len(rows) else np.zeros((0, *learning.shape), learning.dtype)
        return fit_linear(x, y, len(self._record.classes), learning, learned)


def fit_linear(x: np.ndarray, y: np.ndarray, classes: int, learning: Learning, learned: Learned) -> Linear:
    """Fit linear models to labels.

    Args:
        x: inputs.
        y: numbers of classes, or targets.
        classes: the number of classes. Not used for targets.
        learning: the learner of all tasks.
        learned: what its features use.
    """
    outputs = classes if learning.classification else learning.outputs
    if learning.classification:
        on_inputs = [fit_classes(x, y.astype(np.int64), outputs, strength) for strength in STRENGTHS]
    else:
        on_inputs = [fit_targets(x, y, outputs, strength) for strength in STRENGTHS]
    features = learning.features(x, learned)
    if features is None:
        return Linear(on_inputs, None)
    return Linear(on_inputs, fit_on_features(x, features, y, outputs, classification=learning.classification))


def predict_linear(linear: Linear, learning: Learning, x: np.ndarray, learned: Learned) -> list[np.ndarray]:
    """What each linear model predicts for the inputs."""
    found = [model.predict(x) for model in linear.on_inputs]
    features = learning.features(x, learned)
    if linear.on_features is not None and features is not None:
        found.append(linear.on_features.predict(x, features))
    return found


def predict_adapted(
    learning: Learning, labelled: Labelled, slots: Sequence[int], x: np.ndarray, learned: Learned | None = None
) -> Float[np.ndarray, "n outputs"]:
    """The probabilities of a task's classes, or the targets, by the learner adapted to its labels.

    Args:
        learning: the learner.
        labelled: the labels.
        slots: the outputs of the task's classes; the others are left out. Not used for targets.
        x: inputs.
        learned: what to predict with; by default what was learned up to now.
    """
    outputs = learning.predict(labelled, x, learned).astype(np.float64)
    return softmax(outputs[:, slots], axis=1) if learning.classification else outputs
