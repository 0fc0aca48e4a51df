"""Baselines that learn nothing from other tasks: a model from scratch on each task's own labels, at each prediction."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax  # type: ignore[import-untyped]
from jax import lax
from jaxtyping import Array, Float, Int, Key, PyTree

from anyshot.learners.learner import Drawn, Want
from anyshot.learners.linear import fit_logistic, fit_ridge
from anyshot.learners.network_learner import NetworkLearner, check_no_optimiser, check_number
from anyshot.limits import check_whole
from anyshot.networks.layers import as_float
from anyshot.shots import Shots

MOST_TRAINING_STEPS = 1_000_000

Fitted = Callable[[PyTree[Array]], Float[Array, "n outputs"]]


class FromScratch(NetworkLearner):
    """A learner that never updates. Online, it is evaluated with all labels of the task that have arrived.

    Where labels are classes, the outputs are logarithms of probabilities. After n shots of a task with K classes, a
    class without a shot has probability 1 / (n + K), by Laplace's rule of succession, and the model shares out the rest
    among the classes that have shots. So with zero shots all classes are equally likely.
    """

    @property
    def wants(self) -> frozenset[Want]:
        """Nothing."""
        return frozenset()

    @property
    def uses_all_labels(self) -> bool:
        """Yes."""
        return True

    def update(self, state: Any, drawn: Drawn, key: Key[Array, ""]) -> tuple[Any, dict[str, Float[Array, ""]]]:
        """The same state. The loops do not call it."""
        return state, {"loss": jnp.zeros(())}


@dataclass(frozen=True, kw_only=True)
class ScratchHyperparameters:
    """The hyperparameters of logistic and of ridge regression.

    Attributes:
        regularisation: λ, the weight of half the squared weights against the sum of the losses: scikit-learn's 1 / C,
            and its alpha in a regression.
    """

    regularisation: float = 1.0

    def __post_init__(self) -> None:
        check_number("regularisation", self.regularisation)


class Scratch(FromScratch):
    """Logistic regression on the inputs; in a regression, ridge regression. There is no network.

    In a regression with zero shots the prediction is 0.
    """

    hyperparameters: ClassVar[type[Any]] = ScratchHyperparameters

    hyper: Any = eqx.field(static=True)

    def __check_init__(self) -> None:
        check_no_optimiser(self.spec)

    def init(self, key: Key[Array, ""]) -> tuple[()]:
        """Nothing is kept."""
        return ()

    def predict(self, state: tuple[()], support: Shots, query: PyTree[Array]) -> Float[Array, "n outputs"]:
        """Outputs of a model fitted to the shots."""
        outputs, regularisation = self.spec.problem.outputs, self.hyper.regularisation
        if not self.spec.problem.classification:
            y = support.y.reshape(support.size, outputs)
            return self.fit_targets(Shots(support.x, y, support.count), regularisation)(query)
        logits = self.fit_classes(support, outputs, regularisation)(query)
        return with_missing_classes(logits, count_classes(support, outputs))

    def fit_classes(self, shots: Shots, classes: int, regularisation: float) -> Fitted:
        """A function of inputs that returns logits."""
        model = fit_logistic(flatten(shots.x), shots.y, shots.present(), classes, regularisation)
        return lambda query: model(flatten(query))

    def fit_targets(self, shots: Shots, regularisation: float) -> Fitted:
        """A function of inputs that returns targets."""
        x = flatten(shots.x)
        model = fit_ridge(x, shots.y.astype(x.dtype), shots.present(), regularisation)
        return lambda query: model(flatten(query))


def with_missing_classes(
    logits: Float[Array, "n classes"], counts: Int[Array, " classes"]
) -> Float[Array, "n classes"]:
    """Logarithms of probabilities, from the logits of the classes that have shots.

    Args:
        logits: of all classes; those of classes without a shot do not matter.
        counts: the number of shots of each class.

    >>> print(*(f"{p:.2f}" for p in jnp.exp(with_missing_classes(jnp.zeros((1, 3)), jnp.array([4, 3, 0])))[0]))
    0.45 0.45 0.10
    """
    seen, all_ = counts > 0, jnp.sum(counts) + counts.shape[0]
    known = jax.nn.log_softmax(jnp.where(seen, logits, -jnp.inf), where=seen, axis=1)
    missing = jnp.sum(~seen)
    return jnp.where(seen, known + jnp.log1p(-missing / all_), -jnp.log(all_)).astype(logits.dtype)


@dataclass(frozen=True, kw_only=True)
class ScratchNetworkHyperparameters:
    """The hyperparameters of training a network from scratch.

    Attributes:
        training_steps: steps of Adam at each prediction, each on all shots.
        training_rate: the step size of Adam.
    """

    training_steps: int = 200
    training_rate: float = 1e-3

    def __post_init__(self) -> None:
        check_whole("training_steps", self.training_steps, 1, MOST_TRAINING_STEPS)
        check_number("training_rate", self.training_rate)


class ScratchNetwork(FromScratch):
    """The network that the other learners have, trained on the shots from its random initial weights.

    In a regression with zero shots the predictions are those of the initial weights. An own optimiser takes the place
    of Adam.
    """

    hyperparameters: ClassVar[type[ScratchNetworkHyperparameters]] = ScratchNetworkHyperparameters

    hyper: ScratchNetworkHyperparameters = eqx.field(static=True)

    @property
    def inner_steps(self) -> int:
        """The steps of training."""
        return self.hyper.training_steps

    @property
    def optimiser(self) -> optax.GradientTransformation:
        """Adam, unless the spec has another."""
        return self.spec.optimiser or optax.adam(self.hyper.training_rate)

    def init(self, key: Key[Array, ""]) -> PyTree[Any]:
        """Random weights. They stay as they are."""
        return self.make_model(key)

    def predict(self, state: PyTree[Any], support: Shots, query: PyTree[Array]) -> PyTree[Array]:
        """Outputs of the network trained on the shots."""
        support = support.without_padding_content()
        weights, rest = eqx.partition(state, eqx.is_inexact_array)

        def step(carry: Any, _: None) -> tuple[Any, None]:
            model, optimiser = eqx.combine(carry[0], rest), carry[1]
            model, optimiser = self.descend(eqx.filter_grad(self.mean_loss)(model, support), optimiser, model)
            return (eqx.filter(model, eqx.is_inexact_array), optimiser), None

        (trained, _), _ = lax.scan(step, (weights, self.init_optimiser(state)), length=self.hyper.training_steps)
        # With zero shots an own optimiser may still move the weights, by decay for instance.
        weights = jax.tree.map(lambda new, old: jnp.where(support.count > 0, new, old), trained, weights)
        outputs = jax.vmap(eqx.combine(weights, rest))(query)
        if not self.spec.problem.classification:
            return outputs
        return with_missing_classes(outputs, count_classes(support, self.spec.problem.outputs))


def count_classes(shots: Shots, classes: int) -> Int[Array, " classes"]:
    """The number of shots of each class."""
    of_class = (shots.y[:, None] == jnp.arange(classes)) & shots.present()[:, None]
    return jnp.sum(of_class, axis=0, dtype=jnp.int32)


def flatten(inputs: PyTree[Array]) -> Float[Array, "n features"]:
    """A row of numbers for each input; images in 0..255 become 0..1, as for the networks."""

    def rows(leaf: Array) -> Array:
        leaf = as_float(leaf)
        return leaf.reshape(leaf.shape[0], math.prod(leaf.shape[1:])).astype(jnp.promote_types(leaf.dtype, jnp.float32))

    return jnp.concatenate([rows(leaf) for leaf in jax.tree.leaves(inputs)], axis=1)
