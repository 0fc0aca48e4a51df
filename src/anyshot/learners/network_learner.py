"""What the learners of the catalogue share: a problem, a network, a loss, an optimiser and hyperparameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import optax  # type: ignore[import-untyped]
from jaxtyping import Array, Float, Key, PyTree

from anyshot.adaptation import Loss, Update
from anyshot.errors import InputError
from anyshot.learners.learner import Learner
from anyshot.shots import Shots

MakeModel = Callable[[Any, int], Any]  # (key, outputs) -> model, a callable PyTree


@dataclass(frozen=True)
class Problem:
    """What a learner must know about the tasks.

    Attributes:
        example: shape and dtype of one input and of one label.
        outputs: the number of outputs of a model: one for each class, or for each component of a target.
        max_shots: M, the largest number of shots that a task is adapted to.
    """

    example: tuple[Any, Any] = field(hash=False)  # an input may be a dict, which has no hash
    outputs: int
    max_shots: int

    @property
    def classification(self) -> bool:
        """Whether labels are classes; else they are targets of a regression."""
        return bool(jnp.issubdtype(self.example[1].dtype, jnp.integer))


@dataclass(frozen=True)
class LearnerSpec:
    """What a learner is made of, apart from its hyperparameters.

    Attributes:
        name: the name of the learner.
        problem: what it must know about the tasks.
        network: a function (key, outputs) -> model that makes a model. A model is any callable PyTree that maps one
            input to `outputs` numbers.
        loss: the loss of one datapoint, a function of (output, label).
        optimiser: updates what is learned. None means Adam with the learner's `meta_rate` and `meta_clip`.
    """

    name: str
    problem: Problem
    network: MakeModel
    loss: Loss
    optimiser: optax.GradientTransformation | None = None


@dataclass(frozen=True, kw_only=True)
class Hyperparameters:
    """The hyperparameters that all network learners have. The defaults are the paper's (appendix E).

    A learner with more of them has a subclass of this.

    Attributes:
        meta_rate: the step size of Adam.
        meta_clip: the largest norm of the (meta-)gradient; a longer one is shortened to it.
    """

    meta_rate: float = 1e-4
    meta_clip: float = 10.0

    def __post_init__(self) -> None:
        check_number("meta_rate", self.meta_rate)
        check_number("meta_clip", self.meta_clip)


class ModelState(eqx.Module):
    """A model and the optimiser's state."""

    model: PyTree[Any]
    optimiser: PyTree[Any]


class NetworkLearner(Learner):
    """A learner that trains a network with an optimiser.

    A subclass sets `hyperparameters` to the dataclass of its own hyperparameters, if it has any: one that extends
    `Hyperparameters`, or any other if it replaces `optimiser`.

    Args:
        spec: its name, and the problem, network, loss and optimiser.
        hyper: its hyperparameters.
    """

    hyperparameters: ClassVar[type[Any]] = Hyperparameters

    spec: LearnerSpec = eqx.field(static=True)
    hyper: Any = eqx.field(static=True)

    @property
    def name(self) -> str:
        """The name it was made by."""
        return self.spec.name

    @property
    def optimiser(self) -> optax.GradientTransformation:
        """Adam with gradient clipping, unless the spec has another."""
        if self.spec.optimiser is not None:
            return self.spec.optimiser
        return optax.chain(optax.clip_by_global_norm(self.hyper.meta_clip), optax.adam(self.hyper.meta_rate))

    def make_model(self, key: Key[Array, ""], outputs: int | None = None) -> PyTree[Any]:
        """Make a model with random weights. By default it has as many outputs as the problem needs."""
        return self.spec.network(key, self.spec.problem.outputs if outputs is None else outputs)

    def mean_loss(self, model: PyTree[Any], shots: Shots) -> Float[Array, ""]:
        """The model's mean loss on datapoints, without adaptation."""
        return Update(self.spec.loss).risk(model, shots)

    def init_optimiser(self, learned: PyTree[Any]) -> PyTree[Any]:
        """The optimiser's state before the first step."""
        return self.optimiser.init(eqx.filter(learned, eqx.is_inexact_array))

    def descend(
        self, gradient: PyTree[Any], optimiser: PyTree[Any], learned: PyTree[Any]
    ) -> tuple[PyTree[Any], PyTree[Any]]:
        """One step of the optimiser.

        Args:
            gradient: of the loss with respect to what is learned.
            optimiser: the optimiser's state.
            learned: the weights, and whatever else is learned.

        Returns:
            What is learned, and the optimiser's state, after the step.
        """
        changes, optimiser = self.optimiser.update(gradient, optimiser, eqx.filter(learned, eqx.is_inexact_array))
        return eqx.apply_updates(learned, changes), optimiser


def check_no_optimiser(spec: LearnerSpec) -> None:
    """Refuse an optimiser for a learner that has none to choose."""
    if spec.optimiser is not None:
        raise InputError(f"{spec.name} has no optimiser to choose, got {spec.optimiser!r}; leave it out")


def check_number(name: str, value: object, *, zero: bool = False) -> None:
    """Refuse a hyperparameter that is not a positive, finite number.

    Args:
        name: of the hyperparameter.
        value: of it.
        zero: whether 0 is allowed, too.

    >>> check_number("meta_rate", 1e-4)
    """
    ok = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf
    if not ok or (value == 0 and not zero):
        what = "a finite number of at least 0" if zero else "a positive, finite number"
        raise InputError(f"{name} must be {what}, got {value!r}")
