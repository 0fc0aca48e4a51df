"""What all methods of a comparison share: the network, the loss and the paper's numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import optax  # type: ignore[import-untyped]

from anyshot.adaptation import Loss, MetaObjective, Update
from anyshot.learners.numbers import Numbers


@dataclass(frozen=True)
class Recipe(Numbers):
    """The ingredients of a learner.

    Attributes:
        network: (key, outputs) -> model, a callable PyTree from one example to `outputs` numbers.
        outputs: numbers the model gives: classes, or components of a target.
        loss: of one datapoint.
        classification: whether labels are classes; else targets of a regression.
        max_shots: M.
        example: shape and dtype of one input and label, for a method that makes room for them (ProtoNet).
    """

    network: Callable[[Any, int], Any]
    outputs: int
    loss: Loss
    classification: bool
    max_shots: int = 20
    example: Any = field(default=None, hash=False)  # an input may be a dict, which has no hash

    def update(self) -> Update:
        """U."""
        return Update(self.loss, self.inner_steps, self.inner_clip, self.second_order)

    def objective(self) -> MetaObjective:
        """J."""
        return MetaObjective(self.update(), self.kl_coefficient, self.tasks)

    def optimiser(self) -> optax.GradientTransformation:
        """Adam with gradient clipping."""
        return optax.chain(optax.clip_by_global_norm(self.meta_clip), optax.adam(self.meta_rate))
