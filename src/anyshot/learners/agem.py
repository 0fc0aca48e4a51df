"""A-GEM (Chaudhry et al. 2019): learn the current task without raising the loss on a memory of earlier ones."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from anyshot.learners.learner import Drawn, Want, wanted
from anyshot.learners.network_learner import ModelState
from anyshot.learners.toe import TOE


class AGEM(TOE):
    """Follows the gradient of the current task, projected if it conflicts with the gradient on the memory.

    Like TOE, it does not adapt: predictions ignore the shots.
    """

    @property
    def wants(self) -> frozenset[Want]:
        """Datapoints of the current task, and of the memory of earlier tasks."""
        return frozenset({"current", "memory"})

    def update(
        self, state: ModelState, drawn: Drawn, key: Key[Array, ""]
    ) -> tuple[ModelState, dict[str, Float[Array, ""]]]:
        """One step of the optimiser on the projected gradient."""
        mean_loss = eqx.filter_value_and_grad(self.mean_loss)
        loss, gradient = mean_loss(state.model, wanted(drawn.current))
        memory_loss, reference = mean_loss(state.model, wanted(drawn.memory))
        # During the first task the memory is empty; the mean over nothing is 0, with gradient 0.
        direction = project(gradient, reference)
        metrics = {"loss": loss, "memory_loss": memory_loss}
        return ModelState(*self.descend(direction, state.optimiser, state.model)), metrics


def project(gradient: PyTree[Any], reference: PyTree[Any]) -> PyTree[Any]:
    """The direction nearest to the gradient g that does not raise the memory's loss, whose gradient is r.

    It is g - (g·r / r·r) r if g·r < 0, and g otherwise.

    >>> print(project(jnp.array([1.0, -2.0]), jnp.array([0.0, 4.0])))
    [1. 0.]
    """
    dot, squared = _dot(gradient, reference), _dot(reference, reference)
    share = jnp.where(dot < 0, dot / jnp.where(squared > 0, squared, 1.0), 0.0)
    return jax.tree.map(lambda g, r: g - share.astype(g.dtype) * r, gradient, reference)


def _dot(a: PyTree[Any], b: PyTree[Any]) -> Float[Array, ""]:
    products = jax.tree.map(lambda x, y: jnp.sum(x * y), a, b)
    return sum(jax.tree.leaves(products), jnp.zeros(()))
