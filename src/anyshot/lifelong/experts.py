"""The models that predictions are mixed of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import softmax  # type: ignore[import-untyped]

from anyshot.errors import InputError
from anyshot.lifelong import from_scratch, with_kernel
from anyshot.lifelong.engine import Labelled
from anyshot.lifelong.from_scratch import FromScratch
from anyshot.lifelong.learning import Learned, Learning
from anyshot.lifelong.on_features import OnFeatures, fit_on_features
from anyshot.lifelong.record import Record
from anyshot.lifelong.store import Store
from anyshot.lifelong.with_kernel import WithKernel


class Own(NamedTuple):
    """The models of a task's own labels.

    Args:
        scratch: a linear model on inputs.
        kernel: a model with a Gaussian kernel on inputs.
        on_features: a linear model on inputs and features, if the learner has features.
    """

    scratch: FromScratch
    kernel: WithKernel
    on_features: OnFeatures | None


class Experts:
    """What was learned from all tasks, adapted to the labels of one; and models of these labels alone.

    Args:
        record: the task.
        store: holds the inputs.
    """

    def __init__(self, record: Record, store: Store) -> None:
        self._record, self._store = record, store
        self._fitted: tuple[int, Learned, Own] | None = None  # to all labels, at this version of them

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
        own = self._fit(labelled.rows, y, learning, learned) if places is not None else self.fit(learning, learned)
        found = np.stack([by_learner, *predict_own(own, learning, x, learned)])
        if not np.isfinite(found).all():
            # Inputs and labels themselves are finite, so products of them are not.
            raise InputError(
                f"x must have numbers that can be computed with in task {self._record.name!r}, got predictions that "
                "are not finite; divide inputs, and targets of a regression, so that most are between -1 and 1"
            )
        return found

    def fit(self, learning: Learning, learned: Learned) -> Own:
        """The models of all labels of the task alone."""
        version, fitted = self._record.version, self._fitted
        if fitted is None or fitted[0] != version or fitted[1] is not learned:
            before = fitted[2] if fitted is not None and fitted[0] == version else None
            self._fitted = version, learned, self._fit(self._record.ids, self._record.y, learning, learned, before)
            return self._fitted[2]
        return fitted[2]

    def _fit(
        self, rows: np.ndarray, y: np.ndarray, learning: Learning, learned: Learned, before: Own | None = None
    ) -> Own:
        x = self._store.read(rows) if len(rows) else np.zeros((0, *learning.shape), learning.dtype)
        return fit_own(x, y, len(self._record.classes), learning, learned, before)


def fit_own(
    x: np.ndarray, y: np.ndarray, classes: int, learning: Learning, learned: Learned, before: Own | None = None
) -> Own:
    """Fit models to the labels of a task.

    Args:
        x: inputs.
        y: numbers of classes, or targets.
        classes: the number of classes. Not used for targets.
        learning: the learner of all tasks.
        learned: what its features use.
        before: models of the same labels, with other features.
    """
    outputs = classes if learning.classification else learning.outputs
    if before is not None:
        scratch, kernel = before.scratch, before.kernel
    elif learning.classification:
        labels = y.astype(np.int64)
        scratch, kernel = from_scratch.fit_classes(x, labels, outputs), with_kernel.fit_classes(x, labels, outputs)
    else:
        scratch, kernel = from_scratch.fit_targets(x, y, outputs), with_kernel.fit_targets(x, y, outputs)
    features = learning.features(x, learned)
    if features is None:
        return Own(scratch, kernel, None)
    on_features = fit_on_features(x, features, y, outputs, classification=learning.classification)
    return Own(scratch, kernel, on_features)


def predict_own(own: Own, learning: Learning, x: np.ndarray, learned: Learned) -> list[np.ndarray]:
    """What each of these models predicts for the inputs."""
    found = [own.scratch.predict(x), own.kernel.predict(x)]
    features = learning.features(x, learned)
    if own.on_features is not None and features is not None:
        found.append(own.on_features.predict(x, features))
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
