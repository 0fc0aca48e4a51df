"""The learner `anyshot`: what was learned from all tasks, beside linear models on the labels of the task alone."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Key, PyTree

from anyshot.learners.ftml import FTML, MOST_INNER_STEPS, FTMLHyperparameters, check_batching
from anyshot.learners.learner import Drawn, Want
from anyshot.learners.linear import fit_logistic, fit_ridge
from anyshot.learners.mixture import Errors, Weights, class_losses, learn_prior
from anyshot.learners.network_learner import NetworkLearner, check_no_optimiser, check_number
from anyshot.learners.ridge_head import MOST_FEATURES, RidgeHead, RidgeHeadHyperparameters
from anyshot.learners.scratch import count_classes, flatten, with_missing_classes
from anyshot.limits import check_whole
from anyshot.rates import Scaled
from anyshot.shots import Shots

REGULARISATION = (1.0, 0.1)  # of the linear models: for noisy labels, and for those with little noise
# FTML-VS, ridge-head, and the linear models: their weights before anything was learned.
FIRST = (0.05, 0.05, 0.3, 0.6)
KL = 1e-4  # the weight of meta-regularisation, as in the presets


@dataclass(frozen=True, kw_only=True)
class AnyshotHyperparameters:
    """The hyperparameters of `anyshot`. The defaults are meant for all task sets.

    Attributes:
        learning_rate: the step size of Adam.
        adaptation_steps: the gradient steps of one adaptation of FTML-VS.
        first_rate: the inner step size of FTML-VS at the start, which is learned.
        features: the number of features of ridge-head.
        batching: how FTML-VS computes the tasks of a meta-batch: "together", "in turn", or "auto" to suit the device.
    """

    learning_rate: float = 1e-3
    adaptation_steps: int = 2
    first_rate: float = 0.1
    features: int = 128
    batching: Literal["auto", "together", "in turn"] = "auto"

    def __post_init__(self) -> None:
        check_number("learning_rate", self.learning_rate)
        check_number("first_rate", self.first_rate)
        check_whole("adaptation_steps", self.adaptation_steps, 1, MOST_INNER_STEPS)
        check_whole("features", self.features, 1, MOST_FEATURES)
        check_batching(self.batching)


class AnyshotState(eqx.Module):
    """What is learned from all tasks, and how the experts do in the current one.

    Attributes:
        ftml: the state of FTML-VS.
        head: the state of ridge-head.
        log_prior: the logarithms of the experts' weights at the start of a task.
        weights: the experts' weights in the current task.
        errors: the experts' squared errors in the current task. Not used for classes.
    """

    ftml: PyTree[Any]
    head: PyTree[Any]
    log_prior: Float[Array, " experts"]
    weights: Weights
    errors: Errors


class Anyshot(NetworkLearner):
    """A mixture of four experts, weighed by how well they predicted the labels of the task before seeing them.

    1. FTML-VS, adapted to the last M labels of the task.
    2. `ridge-head`: ridge regression on learned features, with a learned prior mean, on all labels of the task.
    3. and 4. Logistic regression on the inputs (in a regression, ridge regression), strongly and weakly regularised, on
       all labels of the task. They learn nothing from other tasks.

    When labels of the current task arrive, each expert predicts them before they are learned from, and the experts'
    weights follow by exponential weights with fixed share. With p_i the probability that expert i gives to a label, the
    prediction is Σ w_i p_i. After n labels of a task, its loss is at most ln(1/w_i) + (1 - w_i) ln n above that of
    expert i, with w_i the weight at the start of the task (see `anyshot.learners.mixture`). These first weights are
    learned from what the experts' first predictions were worth in earlier tasks.

    A task whose labels were not observed, offline for instance, has the first weights.
    """

    hyperparameters: ClassVar[type[AnyshotHyperparameters]] = AnyshotHyperparameters

    hyper: AnyshotHyperparameters = eqx.field(static=True)

    def __check_init__(self) -> None:
        check_no_optimiser(self.spec)

    @property
    def ftml(self) -> FTML:
        """The first expert."""
        hyper = FTMLHyperparameters(
            meta_rate=self.hyper.learning_rate,
            inner_steps=self.hyper.adaptation_steps,
            inner_rate=self.hyper.first_rate,
            kl_coefficient=KL,
            batching=self.hyper.batching,
        )
        return FTML(self.spec, hyper, Scaled)

    @property
    def head(self) -> RidgeHead:
        """The second expert."""
        hyper = RidgeHeadHyperparameters(meta_rate=self.hyper.learning_rate, features=self.hyper.features)
        return RidgeHead(self.spec, hyper)

    @property
    def inner_steps(self) -> int:
        """The gradient steps of FTML-VS."""
        return self.hyper.adaptation_steps

    @property
    def wants(self) -> frozenset[Want]:
        """Episodes."""
        return frozenset({"episodes"})

    @property
    def uses_all_labels(self) -> bool:
        """Yes."""
        return True

    def init(self, key: Key[Array, ""]) -> AnyshotState:
        """Random weights of both networks."""
        of_ftml, of_head = jax.random.split(key)
        log_prior = jnp.log(jnp.asarray(FIRST))
        return AnyshotState(
            self.ftml.init(of_ftml),
            self.head.init(of_head),
            log_prior,
            Weights.start(log_prior),
            Errors.start(len(FIRST)),
        )

    def update(
        self, state: AnyshotState, drawn: Drawn, key: Key[Array, ""]
    ) -> tuple[AnyshotState, dict[str, Float[Array, ""]]]:
        """One update of FTML-VS and one of ridge-head."""
        of_ftml, of_head = jax.random.split(key)
        ftml, metrics = self.ftml.update(state.ftml, drawn, of_ftml)
        head, of_head_too = self.head.update(state.head, drawn, of_head)
        metrics = {**metrics, "head_loss": of_head_too["loss"]}
        return dataclasses.replace(state, ftml=ftml, head=head), metrics

    def observe(self, state: AnyshotState, expected: Float[Array, "n experts outputs"], arrived: Shots) -> AnyshotState:
        """Weigh the experts by what they had predicted of the labels that have arrived."""
        present, errors = arrived.present(), state.errors
        arrived = arrived.without_padding_content()
        if self.spec.problem.classification:
            losses = class_losses(expected, arrived.y)
        else:
            targets = arrived.y.reshape(arrived.size, 1, self.spec.problem.outputs)
            losses, errors = errors.update(expected - targets, present)
        weights = state.weights.update(losses, present, state.log_prior)
        return dataclasses.replace(state, weights=weights, errors=errors)

    def end_task(self, state: AnyshotState) -> AnyshotState:
        """Learn the weights to start with from the task that ends."""
        log_prior = learn_prior(state.log_prior, state.weights, jnp.asarray(FIRST))
        return dataclasses.replace(
            state, log_prior=log_prior, weights=Weights.start(log_prior), errors=Errors.start(len(FIRST))
        )

    def predict(self, state: AnyshotState, support: Shots, query: PyTree[Array]) -> Float[Array, "n outputs"]:
        """Σ w_i p_i, as logarithms; in a regression Σ w_i y_i, with y_i the target that expert i predicts."""
        return self.combine(state, support, self.expect(state, support, query))

    def combine(
        self, state: AnyshotState, support: Shots, expected: Float[Array, "n experts outputs"]
    ) -> Float[Array, "n outputs"]:
        """The weighted mean of what the experts predict."""
        log_weights = jnp.where(support.count == state.weights.count, state.weights.log, state.log_prior)
        if self.spec.problem.classification:
            return jax.nn.logsumexp(expected + log_weights[:, None], axis=1)
        return jnp.tensordot(expected, jnp.exp(log_weights), axes=(1, 0))

    def expect(self, state: AnyshotState, support: Shots, query: PyTree[Array]) -> Float[Array, "n experts outputs"]:
        """The logarithms of the probabilities, or the targets, that each expert predicts."""
        support = support.without_padding_content()
        by_learned = [
            self.ftml.predict(state.ftml, _last(support, self.spec.problem.max_shots), query),
            self.head.predict(state.head, support, query),
        ]
        x, asked, present, outputs = flatten(support.x), flatten(query), support.present(), self.spec.problem.outputs
        learned, strengths = jnp.stack(by_learned, axis=1), jnp.asarray(REGULARISATION)
        if self.spec.problem.classification:
            logits = jax.vmap(lambda one: fit_logistic(x, support.y, present, outputs, one)(asked))(strengths)
            counts = count_classes(support, outputs)
            own = jax.vmap(lambda one: with_missing_classes(one, counts), out_axes=1)(logits)
            return jnp.concatenate([jax.nn.log_softmax(learned), own], axis=1)
        targets = support.y.reshape(support.size, outputs).astype(x.dtype)
        own = jax.vmap(lambda one: fit_ridge(x, targets, present, one)(asked), out_axes=1)(strengths)
        return jnp.concatenate([learned, own], axis=1)

    def features(self, state: AnyshotState, x: PyTree[Array]) -> Float[Array, "n features"]:
        """Those of ridge-head."""
        return self.head.features(state.head, x)

    def rates(self, state: AnyshotState) -> dict[str, Float[Array, "..."]]:
        """Those of FTML-VS."""
        return self.ftml.rates(state.ftml)


def _last(shots: Shots, most: int) -> Shots:
    """The last shots, at most so many."""
    if shots.size <= most:
        return shots
    start = jnp.maximum(shots.count - most, 0)

    def cut(leaf: Array) -> Array:
        return lax.dynamic_slice_in_dim(leaf, start, most)

    return Shots(jax.tree.map(cut, shots.x), jax.tree.map(cut, shots.y), jnp.minimum(shots.count, most))
