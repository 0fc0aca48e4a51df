"""Train on everything: one model for all tasks, trained on all data received, never adapted (paper, section 6.2)."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, Key, PyTree

from anyshot.adaptation import Shots
from anyshot.learners.descent import descended, optimiser_state
from anyshot.learners.learner import Drawn, Learner, Want
from anyshot.learners.recipe import Recipe


class ModelState(eqx.Module):
    """A model and Adam's memory."""

    model: PyTree[Any]
    optimiser: PyTree[Any]


class TOE(Learner):
    """Empirical risk minimisation over {D_1, ..., D_t}, a batch at a time; the shots are ignored at prediction."""

    recipe: Recipe = eqx.field(static=True)

    @property
    def wants(self) -> frozenset[Want]:
        """A batch of everything received."""
        return frozenset({"batch"})

    def init(self, key: Key[Array, ""]) -> ModelState:
        """Random weights."""
        model = self.recipe.network(key, self.recipe.outputs)
        return ModelState(model, optimiser_state(self.recipe.optimiser(), model))

    def update(
        self, state: ModelState, drawn: Drawn, key: Key[Array, ""]
    ) -> tuple[ModelState, dict[str, Float[Array, ""]]]:
        """One step of Adam on the mean loss of the batch."""
        assert drawn.batch is not None
        loss, gradient = eqx.filter_value_and_grad(self.recipe.update().risk)(state.model, drawn.batch)
        model, optimiser = descended(self.recipe.optimiser(), gradient, state.optimiser, state.model)
        return ModelState(model, optimiser), {"loss": loss}

    def predict(self, state: ModelState, support: Shots, query: PyTree[Array]) -> PyTree[Array]:
        """h(x; θ)."""
        return jax.vmap(state.model)(query)
