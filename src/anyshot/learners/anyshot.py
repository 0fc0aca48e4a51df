"""The learner `anyshot`: what was learned from all tasks, pooled with a model of the labels of the task alone."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from anyshot.learners.ftml import FTML, MOST_INNER_STEPS, FTMLHyperparameters, check_batching
from anyshot.learners.learner import Drawn, Want
from anyshot.learners.network_learner import NetworkLearner, check_no_optimiser, check_number
from anyshot.learners.pool import Errors, Powers, class_loss, pool_classes, pool_targets, target_loss
from anyshot.learners.ridge_head import MOST_FEATURES, RidgeHead, RidgeHeadHyperparameters
from anyshot.learners.scratch_kernel import ScratchKernel, ScratchKernelHyperparameters
from anyshot.limits import check_whole
from anyshot.rates import Scaled
from anyshot.shots import Shots

FIRST = (0.4, 0.4, 0.4)  # the powers of FTML-VS, ridge-head and the kernel before anything was learned
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
        powers: of the experts in the pool.
        errors: the experts' squared errors in the current task. Not used for classes.
    """

    ftml: PyTree[Any]
    head: PyTree[Any]
    powers: Powers
    errors: Errors


class Anyshot(NetworkLearner):
    """A logarithmic pool of three experts, with powers learned from what they predicted of labels before seeing them.

    1. FTML-VS, adapted to the last M labels of the task.
    2. `ridge-head`: ridge regression on learned features, with a learned prior mean, on all labels of the task.
    3. `scratch-kernel`: a Gaussian kernel, on all labels of the task. It learns nothing from other tasks.

    When labels of the current task arrive, each expert predicts them before they are learned from, and the powers
    follow (`anyshot.learners.pool` has the rule and its bound).
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
    def kernel(self) -> ScratchKernel:
        """The third expert."""
        return ScratchKernel(self.spec, ScratchKernelHyperparameters())

    @property
    def inner_steps(self) -> int:
        """The gradient steps of FTML-VS."""
        return self.hyper.adaptation_steps

    @property
    def second_order(self) -> bool:
        """Yes."""
        return self.ftml.second_order

    @property
    def wants(self) -> frozenset[Want]:
        """Episodes."""
        return frozenset({"episodes"})

    @property
    def shares_tasks(self) -> bool:
        """Yes: updates of FTML-VS do. Each device updates ridge-head by itself, with all tasks of a meta-batch."""
        return True

    @property
    def uses_all_labels(self) -> bool:
        """Yes."""
        return True

    def init(self, key: Key[Array, ""]) -> AnyshotState:
        """Random weights of both networks."""
        of_ftml, of_head = jax.random.split(key)
        powers, errors = Powers.start(jnp.asarray(FIRST)), Errors.start(len(FIRST))
        return AnyshotState(self.ftml.init(of_ftml), self.head.init(of_head), powers, errors)

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
        """Learn the powers from what the experts had predicted of the labels that have arrived."""
        present, arrived = arrived.present(), arrived.without_padding_content()
        if self.spec.problem.classification:
            powers = state.powers.update(class_loss, (expected, arrived.y), present)
            return dataclasses.replace(state, powers=powers)
        targets = arrived.y.reshape(arrived.size, self.spec.problem.outputs)
        variances, errors = state.errors.update(expected - targets[:, None], present)
        powers = state.powers.update(target_loss, (expected, variances, targets), present)
        return dataclasses.replace(state, powers=powers, errors=errors)

    def end_task(self, state: AnyshotState) -> AnyshotState:
        """The errors and labels of the task that ends count no more."""
        return dataclasses.replace(state, powers=state.powers.end_task(), errors=Errors.start(len(FIRST)))

    def predict(self, state: AnyshotState, support: Shots, query: PyTree[Array]) -> Float[Array, "n outputs"]:
        """Logarithms of the pool's probabilities, or its mean in a regression."""
        return self.combine(state, support, self.expect(state, support, query))

    def combine(
        self, state: AnyshotState, support: Shots, expected: Float[Array, "n experts outputs"]
    ) -> Float[Array, "n outputs"]:
        """What the pool predicts, from what the experts do."""
        powers = state.powers.at(support.count)
        if self.spec.problem.classification:
            return pool_classes(powers, expected)
        return pool_targets(powers, state.errors.variances, expected)[0]

    def expect(self, state: AnyshotState, support: Shots, query: PyTree[Array]) -> Float[Array, "n experts outputs"]:
        """The logarithms of the probabilities, or the targets, that each expert predicts."""
        support = support.without_padding_content()
        learned = [
            self.ftml.predict(state.ftml, support.last(self.spec.problem.max_shots), query),
            self.head.predict(state.head, support, query),
        ]
        if self.spec.problem.classification:
            learned = [jax.nn.log_softmax(outputs) for outputs in learned]
        return jnp.stack([*learned, self.kernel.predict((), support, query)], axis=1)

    def features(self, state: AnyshotState, x: PyTree[Array]) -> Float[Array, "n features"]:
        """Those of ridge-head."""
        return self.head.features(state.head, x)

    def rates(self, state: AnyshotState) -> dict[str, Float[Array, "..."]]:
        """Those of FTML-VS."""
        return self.ftml.rates(state.ftml)
