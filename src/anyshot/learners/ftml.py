"""Follow the meta-leader, with any rule for the inner step size (paper, section 5 and algorithm 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from anyshot.adaptation import Episodes, GaussianWeights, Shots, gradient_moments
from anyshot.inputs import is_known
from anyshot.learners.descent import descended, optimiser_state
from anyshot.learners.learner import Drawn, Learner, Want
from anyshot.learners.recipe import Recipe
from anyshot.rates import ClosedForm, Rate

MOMENTS_KEPT = 0.9  # share of the old estimate of C1 and C2 in the new one: a single batch is too noisy


class FTMLState(eqx.Module):
    """θ (or the mean and spread of Gaussian weights), the rate rule, and Adam's memory."""

    weights: PyTree[Any]
    rate: Rate
    optimiser: PyTree[Any]


class FTML(Learner):
    """VS-Meta-Update and VS-Update-Procedure; the rule makes it FTML, FTML-VL, FTML-VS or one with Meta-SGD.

    Args:
        recipe: network, loss and numbers.
        rate: makes the rule from the model.
    """

    recipe: Recipe = eqx.field(static=True)
    rate: Callable[[PyTree[Any]], Rate] = eqx.field(static=True)

    @property
    def wants(self) -> frozenset[Want]:
        """Episodes."""
        return frozenset({"episodes"})

    def init(self, key: Key[Array, ""]) -> FTMLState:
        """Random weights and the rule's initial values."""
        model = self.recipe.network(key, self.recipe.outputs)
        weights = GaussianWeights(model) if self.recipe.kl_coefficient else model
        rate = self.rate(model)
        return FTMLState(weights, rate, optimiser_state(self.recipe.optimiser(), (weights, rate)))

    def update(
        self, state: FTMLState, drawn: Drawn, key: Key[Array, ""]
    ) -> tuple[FTMLState, dict[str, Float[Array, ""]]]:
        """One step of Adam on the meta-objective, for the weights and the rule."""
        assert drawn.episodes is not None
        rate = self._with_moments(state, drawn.episodes)
        both = (state.weights, rate)
        loss, gradient = self.recipe.objective().value_and_grad(*both, drawn.episodes, key)
        (weights, rate), optimiser = descended(self.recipe.optimiser(), gradient, state.optimiser, both)
        return FTMLState(weights, rate, optimiser), {"loss": loss}

    def predict(self, state: FTMLState, support: Shots, query: PyTree[Array]) -> PyTree[Array]:
        """h(x; U(θ, α_s, s))."""
        return jax.vmap(self.recipe.update()(_mean(state.weights), state.rate, support))(query)

    def rates(self, state: FTMLState) -> dict[str, Float[Array, "..."]]:
        """α_s for s = 0..M (its mean over parameters, if it has one for each), β and η."""

        def alpha(shots: int) -> Float[Array, ""]:
            leaves = jax.tree.leaves(state.rate(shots))
            return sum((jnp.sum(leaf) for leaf in leaves), jnp.zeros(())) / sum(leaf.size for leaf in leaves)

        named = {"alpha": jnp.stack([alpha(shots) for shots in range(self.recipe.max_shots + 1)])}
        for name in ("beta", "eta"):
            if hasattr(state.rate, name):
                named[name] = jnp.asarray(getattr(state.rate, name))
        return named

    def _with_moments(self, state: FTMLState, episodes: Episodes) -> Rate:
        """The rule; if it is the closed form of theorem 1, with C1 and C2 measured anew for the present weights."""
        rate = state.rate
        if not isinstance(rate, ClosedForm):
            return rate
        # A variance needs two datapoints; a batch in which no task has them leaves the estimate as it is.
        usable = jnp.any(episodes.val.count >= 2)
        if is_known(usable) and not usable:
            return rate
        measured = gradient_moments(_mean(state.weights), self.recipe.loss, episodes.val)
        old = (rate.gradient_variance, rate.squared_mean_gradient)
        new = [
            jnp.where(usable, MOMENTS_KEPT * before + (1 - MOMENTS_KEPT) * now, before)
            for before, now in zip(old, measured, strict=True)
        ]
        return eqx.tree_at(lambda r: (r.gradient_variance, r.squared_mean_gradient), rate, tuple(new))


def _mean(weights: PyTree[Any]) -> PyTree[Any]:
    return weights.mean if isinstance(weights, GaussianWeights) else weights
