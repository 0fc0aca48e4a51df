"""A baseline that learns nothing from other tasks: a model with a Gaussian kernel on each task's own labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from anyshot.learners.descriptors import describe, join, weigh
from anyshot.learners.kernel import KernelModel, fit_kernel_logistic, fit_kernel_ridge
from anyshot.learners.network_learner import check_number
from anyshot.learners.scratch import Scratch, count_classes
from anyshot.shots import Shots

MOST_SHOTS = 2000  # the kernel has a row and a column for each


@dataclass(frozen=True, kw_only=True)
class ScratchKernelHyperparameters:
    """The hyperparameters of a model with a Gaussian kernel.

    Attributes:
        regularisation: λ, the weight of half the squared norm of the fitted function against the sum of the losses.
    """

    regularisation: float = 0.003

    def __post_init__(self) -> None:
        check_number("regularisation", self.regularisation)


class ScratchKernel(Scratch):
    """Logistic regression with a Gaussian kernel; in a regression, ridge regression. There is no network.

    The kernel compares images by their edges and colours, and other inputs as they are; what says much about the labels
    counts more (`anyshot.learners.descriptors`). It is fitted to the last 2,000 shots at most. In a regression with
    zero shots the prediction is 0.
    """

    hyperparameters: ClassVar[type[Any]] = ScratchKernelHyperparameters

    def predict(self, state: tuple[()], support: Shots, query: PyTree[Array]) -> Float[Array, "n outputs"]:
        """Outputs of a model fitted to the last shots."""
        return super().predict(state, support.last(MOST_SHOTS), query)

    def fit_classes(self, shots: Shots, classes: int, regularisation: float) -> OnParts:
        """A function of inputs that returns logits."""
        return fit_classes_on_parts(shots, classes, regularisation)

    def fit_targets(self, shots: Shots, regularisation: float) -> OnParts:
        """A function of inputs that returns targets."""
        return fit_targets_on_parts(shots, regularisation)


class OnParts(eqx.Module):
    """A model with a Gaussian kernel on the parts of inputs.

    Attributes:
        model: of the parts, joined.
        scales: of each part.
    """

    model: KernelModel
    scales: Float[Array, " parts"]

    def __call__(self, inputs: PyTree[Array]) -> Float[Array, "n outputs"]:
        """Outputs for several inputs."""
        return self.model(join(describe(inputs), self.scales))


def fit_classes_on_parts(shots: Shots, classes: int, regularisation: float) -> OnParts:
    """Logistic regression. The outputs are logits of the classes that have a shot."""
    parts, seen = describe(shots.x), jnp.sum(count_classes(shots, classes) > 0)
    scales = weigh(parts, jax.nn.one_hot(shots.y, classes), seen - 1, shots.present())
    return OnParts(fit_kernel_logistic(join(parts, scales), shots.y, shots.present(), classes, regularisation), scales)


def fit_targets_on_parts(shots: Shots, regularisation: float) -> OnParts:
    """Ridge regression; the label of a shot is a vector of targets. Without shots the outputs are 0."""
    parts, y = describe(shots.x), shots.y
    scales = weigh(parts, y, y.shape[1], shots.present())
    x = join(parts, scales)
    return OnParts(fit_kernel_ridge(x, y.astype(x.dtype), shots.present(), regularisation), scales)
