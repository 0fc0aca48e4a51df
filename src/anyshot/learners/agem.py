"""A-GEM (Chaudhry et al. 2019): learn the current task without raising the loss on a memory of earlier ones."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from anyshot.learners.descent import descended
from anyshot.learners.learner import Drawn, Want
from anyshot.learners.toe import TOE, ModelState


class AGEM(TOE):
    """Steps along the current task's gradient, projected where it conflicts with that of the memory; never adapted."""

    @property
    def wants(self) -> frozenset[Want]:
        """Datapoints of the current task, and of the memory of earlier tasks."""
        return frozenset({"current", "memory"})

    def update(
        self, state: ModelState, drawn: Drawn, key: Key[Array, ""]
    ) -> tuple[ModelState, dict[str, Float[Array, ""]]]:
        """One step of Adam on the projected gradient."""
        assert drawn.current is not None
        assert drawn.memory is not None
        risk = eqx.filter_value_and_grad(self.recipe.update().risk)
        loss, gradient = risk(state.model, drawn.current)
        memory_loss, reference = risk(state.model, drawn.memory)
        # During the first task there is nothing to remember, and the mean over nothing is 0 with gradient 0.
        direction = projected(gradient, reference)
        model, optimiser = descended(self.recipe.optimiser(), direction, state.optimiser, state.model)
        return ModelState(model, optimiser), {"loss": loss, "memory_loss": memory_loss}


def projected(gradient: PyTree[Any], reference: PyTree[Any]) -> PyTree[Any]:
    """G - (g·r / r·r) r if g·r < 0, else g: the nearest direction that does not raise the memory's loss.

    >>> print(projected(jnp.array([1.0, -2.0]), jnp.array([0.0, 4.0])))
    [1. 0.]
    """
    dot, squared = _dot(gradient, reference), _dot(reference, reference)
    share = jnp.where(dot < 0, dot / jnp.where(squared > 0, squared, 1.0), 0.0)
    return jax.tree.map(lambda g, r: g - share.astype(g.dtype) * r, gradient, reference)


def _dot(a: PyTree[Any], b: PyTree[Any]) -> Float[Array, ""]:
    products = jax.tree.map(lambda x, y: jnp.sum(x * y), a, b)
    return sum(jax.tree.leaves(products), jnp.zeros(()))
