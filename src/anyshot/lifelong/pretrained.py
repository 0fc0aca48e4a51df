"""A learner from a file, adapted to labels in memory. Nothing is written, and the learner itself stays as it is."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from anyshot.errors import DataError, InputError
from anyshot.lifelong.engine import Labelled
from anyshot.lifelong.experts import Own, fit_own, predict_adapted, predict_own
from anyshot.lifelong.learning import LearnerSettings, Learning
from anyshot.lifelong.slots import choose_slots, count_outputs
from anyshot.lifelong.snapshots import read_snapshot
from anyshot.runs.learner_records import with_tuples
from anyshot.tasks.frames import FrameEncoder


class Pretrained:
    """What `Lifelong.export` wrote, for one task.

    A copy by pickle or `copy.deepcopy` needs the file no more.

    Args:
        path: the file.
        kind: what labels are: "classes" or "targets".
        seed: decides which labels are used if there are more than the learner adapts to.
    """

    prior: list[float]  # the weights of the experts before the first label

    def __init__(self, path: Path, kind: str, seed: int) -> None:
        self.path, self.seed = path, seed
        self.slots: dict[str, int] = {}  # the output of each class, by repr(name)
        self._x: np.ndarray = np.zeros(0)
        self._labels: np.ndarray = np.zeros(0, np.int64)
        self._own: Own
        self._arrays, self._about = read_snapshot(path)
        if self._about.get("kind") != kind:
            raise InputError(f"pretrained must be a file that was learned from {kind}, but {path} knows other labels")
        self._learning = self._restore()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_learning"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._learning = self._restore()

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one input."""
        return self._learning.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the inputs."""
        return np.dtype(self._learning.dtype)

    @property
    def outputs(self) -> int:
        """The number of outputs, that is, of numbers in a target."""
        return self._learning.outputs

    @property
    def encoder(self) -> FrameEncoder | None:
        """What encodes frames, if the learner was learned from frames. Anything else comes as arrays."""
        description = self._about.get("encoder") or {}
        return FrameEncoder.from_description(description) if description.get("encoder") == "frame" else None

    def add_classes(self, names: list[Any]) -> None:
        """Give outputs to new classes: those that they had when the file was made, and free ones to others."""
        self.slots |= choose_slots([repr(name) for name in names], self.slots, [self._about["slots"]])
        self._learning.grow(count_outputs([self.slots]))

    def flatten(self, x: Any) -> Any:
        """An array of inputs of the learner's shape as vectors; anything else stays as it is."""
        if not isinstance(x, np.ndarray) or x.ndim < 3:
            return x
        if x.shape[1:] != self.shape:
            raise InputError(self._other_shape(x.shape[1:]))
        return x.reshape(len(x), -1)

    def unflatten(self, x: Float[np.ndarray, "n numbers"]) -> np.ndarray:
        """Vectors as inputs of the learner's shape and dtype."""
        if x.shape[1] != math.prod(self.shape):
            raise InputError(self._other_shape(x.shape[1:]))
        if self.dtype == np.uint8 and not np.array_equal(x, np.clip(x, 0, 255).astype(np.uint8)):
            raise InputError(f"X must hold whole numbers from 0 to 255: {self.path} was learned from images of bytes")
        return x.reshape(-1, *self.shape).astype(self.dtype)

    def _other_shape(self, shape: tuple[int, ...]) -> str:
        return f"X has inputs of shape {shape}, but {self.path} was learned from inputs of shape {self.shape}"

    def adapt(self, x: np.ndarray, labels: np.ndarray) -> None:
        """Predict from now on with these labels.

        Args:
            x: inputs.
            labels: numbers of classes in the order in which these were added, or targets.
        """
        self._x, self._labels = x, labels
        self._own = fit_own(x, labels, len(self.slots), self._learning, self._learning.now)

    def predict(self, x: np.ndarray) -> Float[np.ndarray, "experts n outputs"]:
        """The probabilities of the classes in the order in which they were added, or the targets, by each expert."""
        slots, labels = list(self.slots.values()), self._labels
        labels = np.array(slots, np.int32)[labels] if self._learning.classification else labels.astype(np.float32)
        by_learner = predict_adapted(self._learning, Labelled(np.arange(len(labels)), labels), slots, x)
        return np.stack([by_learner, *predict_own(self._own, self._learning, x, self._learning.now)])

    def _read(self, rows: np.ndarray) -> np.ndarray:
        return self._x[rows]

    def _restore(self) -> Learning:
        about = self._about
        try:
            shape, dtype, classification = tuple(about["shape"]), about["dtype"], about["kind"] == "classes"
            record, _, self.prior = about["learner"], about["slots"], list(about["prior"])
            problem, hyperparameters = record["problem"], with_tuples(record["hyperparameters"])
            network = {name: value for name, value in record["network"].items() if name != "sha256"}
            most = problem["max_shots"]
            settings = LearnerSettings(record["name"], network, hyperparameters, max_shots=most, seed=self.seed)
            learning = Learning(settings, shape, dtype, problem["outputs"], classification, self._read)
        except (AttributeError, KeyError, TypeError) as error:
            raise DataError(f"{self.path} is damaged, or of another version; export it again: {error}") from error
        learning.restore(self._arrays, about, self.path)
        if classification:
            learning.grow(count_outputs([self.slots]))
        return learning
