"""Train on everything: one model for all tasks, trained on all data received, not adapted (paper, section 6.2)."""

from __future__ import annotations

import equinox as eqx
import jax
from jaxtyping import Array, Float, Key, PyTree

from anyshot.learners.learner import Drawn, Want, wanted
from anyshot.learners.network_learner import ModelState, NetworkLearner
from anyshot.shots import Shots


class TOE(NetworkLearner):
    """Empirical risk minimisation over {D_1, ..., D_t}, a batch at a time. Predictions ignore the shots."""

    @property
    def wants(self) -> frozenset[Want]:
        """A batch of everything received."""
        return frozenset({"batch"})

    def init(self, key: Key[Array, ""]) -> ModelState:
        """Random weights."""
        model = self.make_model(key)
        return ModelState(model, self.init_optimiser(model))

    def update(
        self, state: ModelState, drawn: Drawn, key: Key[Array, ""]
    ) -> tuple[ModelState, dict[str, Float[Array, ""]]]:
        """One step of the optimiser on the mean loss of the batch."""
        loss, gradient = eqx.filter_value_and_grad(self.mean_loss)(state.model, wanted(drawn.batch))
        return ModelState(*self.descend(gradient, state.optimiser, state.model)), {"loss": loss}

    def predict(self, state: ModelState, support: Shots, query: PyTree[Array]) -> PyTree[Array]:
        """h(x; θ)."""
        return jax.vmap(state.model)(query)
