"""A model with a Gaussian kernel, fitted to a task's own labels alone. It compares edges and colours of images."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from anyshot.learners.scratch_kernel import (
    MOST_SHOTS,
    OnParts,
    ScratchKernelHyperparameters,
    fit_classes_on_parts,
    fit_targets_on_parts,
)
from anyshot.lifelong.engine import map_batches
from anyshot.lifelong.from_scratch import count_prior, share_out
from anyshot.shots import Shots

REGULARISATION = ScratchKernelHyperparameters().regularisation
ROOMS = (32, 128, 512, 1024, 2048)  # labels are padded to the next of these numbers


@dataclass(frozen=True)
class WithKernel:
    """Logistic or ridge regression with a Gaussian kernel, as the learner `scratch-kernel` has it.

    Attributes:
        model: from inputs to logits or targets; None without labels, or while all are of one class.
        seen: the classes that have a label among those fitted; None for targets.
        prior: for classes, the share of each among the labels, every class counted once more; for targets zeros.
    """

    model: OnParts | None
    seen: Int[np.ndarray, " seen"] | None
    prior: Float[np.ndarray, " outputs"]

    @property
    def count(self) -> int:
        """How many inputs the model compares with."""
        return 0 if self.model is None else int(jnp.sum(self.model.model.kernel.present))

    def predict(self, x: np.ndarray) -> Float[np.ndarray, "n outputs"]:
        """The probability of each class, or the target, for each input."""
        model = self.model
        if model is None or not len(x):
            return np.tile(self.prior, (len(x), 1))
        outputs = map_batches(lambda some: _predict(model, some), x).astype(np.float64)
        if self.seen is None:
            return outputs
        logits = outputs[:, self.seen]
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return share_out(self.prior, self.seen, shares / shares.sum(axis=1, keepdims=True))


def fit_classes(x: np.ndarray, labels: np.ndarray, classes: int) -> WithKernel:
    """Fit logistic regression to the last 2,000 labels.

    Args:
        x: inputs.
        labels: the number of the class of each.
        classes: how many there are.

    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]], np.float32)
    >>> print(fit_classes(x, np.array([0, 1, 0, 0]), classes=2).predict(x).round(1))
    [[1.  0. ]
     [0.1 0.9]
     [1.  0. ]
     [1.  0. ]]
    """
    prior = count_prior(labels, classes)
    x, labels = x[-MOST_SHOTS:], labels[-MOST_SHOTS:]
    seen = np.unique(labels)  # a class that has older labels only keeps its prior
    if len(seen) < 2:
        return WithKernel(None, seen, prior)
    # Compiled for few numbers of labels and classes. A class without a label does not matter to the others.
    room = 1 << (classes - 1).bit_length()
    return WithKernel(_fit_classes(_pad(x, labels.astype(np.int32)), room), seen, prior)


def fit_targets(x: np.ndarray, targets: np.ndarray, outputs: int) -> WithKernel:
    """Fit ridge regression to the last 2,000 labels.

    Args:
        x: inputs.
        targets: of each.
        outputs: the number of numbers in a target.

    >>> x = np.linspace(0, 6, 13, dtype=np.float32)[:, None]
    >>> print(fit_targets(x, np.sin(x), outputs=1).predict(x[3:5]).round(1), np.sin(x[3:5]).round(1))
    [[1. ]
     [0.9]] [[1. ]
     [0.9]]
    """
    prior, y = np.zeros(outputs), targets.reshape(len(targets), outputs)
    x, y = x[-MOST_SHOTS:], y[-MOST_SHOTS:]
    if not len(y):
        return WithKernel(None, None, prior)
    return WithKernel(_fit_targets(_pad(x, y.astype(np.float32))), None, prior)


def _pad(x: np.ndarray, y: np.ndarray) -> Shots:
    room = next(room for room in ROOMS if room >= len(x))
    padded = [np.concatenate([rows, np.zeros((room - len(rows), *rows.shape[1:]), rows.dtype)]) for rows in (x, y)]
    return Shots(jnp.asarray(padded[0]), jnp.asarray(padded[1]), jnp.asarray(len(x), jnp.int32))


@partial(jax.jit, static_argnums=1)
def _fit_classes(shots: Shots, classes: int) -> OnParts:
    return fit_classes_on_parts(shots, classes, REGULARISATION)


@jax.jit
def _fit_targets(shots: Shots) -> OnParts:
    return fit_targets_on_parts(shots, REGULARISATION)


@jax.jit
def _predict(model: OnParts, x: Shaped[Array, "n ..."]) -> Float[Array, "n outputs"]:
    return model(x)
