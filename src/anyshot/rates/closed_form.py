"""The paper's rule with η measured by theorem 1 instead of learned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PyTree

from anyshot.inputs import check_not_negative
from anyshot.rates.rule import Count, Moments, Rate, at_most, check_max_shots, fraction_of_full_step, log_array

KEPT = 0.9  # share of the old estimate of C1 and C2 in the new one: a single batch is too noisy


class ClosedForm(Rate):
    """α_s = β (1 - 1/(1 + (C2/C1) s)): β learned, C1 and C2 estimated from gradients (paper, theorem 1).

    C1 and C2 depend on the weights, so they are measured again as these change: see `anyshot.adaptation.remeasure`.

    >>> rate = ClosedForm(beta=0.1, gradient_variance=2.0, squared_mean_gradient=1.0)
    >>> print([f"{rate(s):.3f}" for s in (0, 2, 20)])
    ['0.000', '0.050', '0.091']
    """

    log_beta: Float[Array, ""]
    gradient_variance: Float[Array, ""]
    squared_mean_gradient: Float[Array, ""]
    max_shots: int = eqx.field(static=True)

    def __init__(
        self,
        beta: float = 0.1,
        gradient_variance: float | Float[Array, ""] = 1.0,
        squared_mean_gradient: float | Float[Array, ""] = 1.0,
        max_shots: int = 20,
    ):
        check_max_shots(max_shots)
        self.log_beta = log_array("beta", beta)
        check_not_negative("gradient_variance", gradient_variance)
        check_not_negative("squared_mean_gradient", squared_mean_gradient)
        self.gradient_variance = jnp.asarray(gradient_variance, dtype=float)
        self.squared_mean_gradient = jnp.asarray(squared_mean_gradient, dtype=float)
        self.max_shots = max_shots

    @classmethod
    def initial(cls, model: PyTree[Any], *, inner_rate: float, eta: float, max_shots: int) -> ClosedForm:
        """β starts at the inner rate, C1 and C2 at one until they are measured."""
        return cls(inner_rate, max_shots=max_shots)

    @property
    def beta(self) -> Float[Array, ""]:
        """β, the step in the limit of many shots."""
        return jnp.exp(self.log_beta)

    @property
    def eta(self) -> Float[Array, ""]:
        """η = C2/C1, not learned: no gradient flows into the estimates."""
        c1, c2 = lax.stop_gradient((self.gradient_variance, self.squared_mean_gradient))
        # Shots without any variance can be trusted fully: the limit is a large number, not a division by zero.
        return c2 / jnp.maximum(c1, 1e-18)

    def remeasure(self, measure: Callable[[], Moments]) -> ClosedForm:
        """The rule with a running average of C1 and C2, to which the new measurement contributes a tenth."""
        old = (self.gradient_variance, self.squared_mean_gradient)
        new = tuple(KEPT * before + (1 - KEPT) * now for before, now in zip(old, measure(), strict=True))
        return eqx.tree_at(lambda rate: (rate.gradient_variance, rate.squared_mean_gradient), self, new)

    def named(self) -> dict[str, Float[Array, ""]]:
        """The learned β and the measured η."""
        return {"beta": self.beta, "eta": self.eta}

    def __call__(self, shots: Count) -> Float[Array, "..."]:
        """The step size β (1 - 1/(1 + (C2/C1) s))."""
        return self.beta * fraction_of_full_step(self.eta, at_most(shots, self.max_shots))
