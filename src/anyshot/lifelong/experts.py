"""The two models that predictions are mixed of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.special import softmax  # type: ignore[import-untyped]

from anyshot.lifelong.engine import Labelled
from anyshot.lifelong.from_scratch import FromScratch, fit_classes, fit_targets
from anyshot.lifelong.learning import Learned, Learning
from anyshot.lifelong.record import Record
from anyshot.lifelong.store import Store


class Experts:
    """What was learned from all tasks, adapted to the labels of one; and a linear model on these labels alone.

    Args:
        record: the task.
        store: holds the inputs.
    """

    def __init__(self, record: Record, store: Store) -> None:
        self._record, self._store = record, store
        self._fitted: tuple[int, FromScratch] | None = None  # to all labels, at this version of them

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
            learned: what the first expert uses; by default what was learned up to now.
            places: of the labels to use; all by default.
        """
        labelled, y = self._record.labelled(), self._record.y
        if places is not None:
            labelled, y = Labelled(labelled.rows[places], labelled.labels[places]), y[places]
        by_learner = predict_adapted(learning, labelled, self._record.info["slots"], x, learned)
        return np.stack([by_learner, self._fit(labelled.rows, y, learning, whole=places is None).predict(x)])

    def fit_scratch(self, learning: Learning) -> FromScratch:
        """The linear model on all labels."""
        return self._fit(self._record.ids, self._record.y, learning, whole=True)

    def _fit(self, rows: np.ndarray, y: np.ndarray, learning: Learning, *, whole: bool) -> FromScratch:
        if whole and self._fitted is not None and self._fitted[0] == self._record.version:
            return self._fitted[1]
        version = self._record.version
        x = self._store.read(rows) if len(rows) else np.zeros((0, *learning.shape), learning.dtype)
        if learning.classification:
            fitted = fit_classes(x, y.astype(np.int64), len(self._record.classes))
        else:
            fitted = fit_targets(x, y, learning.outputs)
        if whole:
            self._fitted = version, fitted
        return fitted


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
