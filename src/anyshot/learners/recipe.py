"""What all methods of a comparison share: the network, the loss and the paper's numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import optax  # type: ignore[import-untyped]

from anyshot.adaptation import Loss, MetaObjective, Update


@dataclass(frozen=True)
class Recipe:
    """The ingredients of a learner; the defaults are the paper's for Rainbow MNIST (appendix E).

    Attributes:
        network: (key, outputs) -> model, a callable PyTree from one example to `outputs` numbers.
        outputs: numbers the model gives: classes, or components of a target.
        loss: of one datapoint.
        classification: whether labels are classes; else targets of a regression.
        max_shots: M.
        inner_steps: N_grad.
        inner_rate: the inner step size, or where a learned one starts.
        inner_clip: largest norm of the inner gradient.
        second_order: whether the meta-gradient sees through the inner gradient.
        eta: where the learned scaling factor starts.
        meta_rate: Adam's step size.
        meta_clip: largest norm of the meta-gradient.
        kl_coefficient: of meta-regularisation, times the KL summed over weights; 0: point weights.
        embedding: size of a prototype.
        tasks: how the tasks of a meta-batch are computed, see `MetaObjective`.
    """

    network: Callable[[Any, int], Any]
    outputs: int
    loss: Loss
    classification: bool
    max_shots: int = 20
    inner_steps: int = 5
    inner_rate: float = 0.1
    inner_clip: float | None = 10.0
    second_order: bool = True
    eta: float = 1.0
    meta_rate: float = 1e-4
    meta_clip: float = 10.0
    kl_coefficient: float = 0.0
    embedding: int = 64
    tasks: Literal["auto", "together", "in turn"] = "auto"

    def update(self) -> Update:
        """U."""
        return Update(self.loss, self.inner_steps, self.inner_clip, self.second_order)

    def objective(self) -> MetaObjective:
        """J."""
        return MetaObjective(self.update(), self.kl_coefficient, self.tasks)

    def optimiser(self) -> optax.GradientTransformation:
        """Adam with gradient clipping."""
        return optax.chain(optax.clip_by_global_norm(self.meta_clip), optax.adam(self.meta_rate))
