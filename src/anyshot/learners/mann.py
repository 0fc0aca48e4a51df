"""MANN (Santoro et al. 2016) as the paper has it (section 6.1, appendix D): a recurrent network reads the shots."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from anyshot.adaptation import Episodes, Shots
from anyshot.learners.descent import descended, optimiser_state
from anyshot.learners.learner import Drawn, Learner, Want
from anyshot.learners.recipe import Recipe
from anyshot.learners.toe import ModelState
from anyshot.networks.memory import Memory


class MANN(Learner):
    """Adapts by remembering instead of by gradients: h(x; GRU over the shots); with zero shots, its initial state."""

    recipe: Recipe = eqx.field(static=True)

    @property
    def wants(self) -> frozenset[Want]:
        """Episodes."""
        return frozenset({"episodes"})

    def init(self, key: Key[Array, ""]) -> ModelState:
        """Random weights."""
        recipe, (of_features, of_memory) = self.recipe, jax.random.split(key)
        features = recipe.network(of_features, recipe.memory)
        model = Memory(features, recipe.outputs, recipe.classification, recipe.memory, key=of_memory)
        return ModelState(model, optimiser_state(recipe.optimiser(), model))

    def update(
        self, state: ModelState, drawn: Drawn, key: Key[Array, ""]
    ) -> tuple[ModelState, dict[str, Float[Array, ""]]]:
        """One step of Adam on the validation loss of the episodes."""
        assert drawn.episodes is not None
        loss, gradient = eqx.filter_value_and_grad(self.meta_loss)(state.model, drawn.episodes)
        model, optimiser = descended(self.recipe.optimiser(), gradient, state.optimiser, state.model)
        return ModelState(model, optimiser), {"loss": loss}

    def predict(self, state: ModelState, support: Shots, query: PyTree[Array]) -> PyTree[Array]:
        """Outputs given the summary of the shots."""
        return _answers(state.model, support, query)

    def meta_loss(self, model: Memory, episodes: Episodes) -> Float[Array, ""]:
        """Mean over the tasks of the validation loss, given the shots."""

        def of_task(one: Episodes) -> Float[Array, ""]:
            val = one.val.without_padding_content()
            losses = jax.vmap(self.recipe.loss)(_answers(model, one.train, val.x), val.y)
            return jnp.sum(losses * val.present()) / jnp.maximum(val.count, 1)

        return jnp.mean(jax.vmap(of_task)(episodes))


def _answers(model: Memory, support: Shots, query: PyTree[Array]) -> PyTree[Array]:
    support = support.without_padding_content()
    summary = model.summary(support.x, support.y, support.present())
    return jax.vmap(lambda x: model(summary, x))(query)
