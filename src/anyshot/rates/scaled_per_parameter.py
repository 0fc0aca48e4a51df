"""The paper's rule times Meta-SGD, which the paper names as future work (section 6.2)."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from anyshot.rates.per_parameter import like_parameters
from anyshot.rates.rule import Count, Rate, at_most, check_max_shots, check_single, fraction_of_full_step, log_array


class ScaledPerParameter(Rate):
    """α_s = β (1 - 1/(1 + ηs)) with β shaped like the weights and one η, all learned.

    >>> rate = ScaledPerParameter({"w": jnp.ones(2)}, beta=0.1, eta=1.0)
    >>> print(rate(4)["w"])
    [0.08 0.08]
    """

    log_beta: PyTree[Float[Array, "..."]]
    log_eta: Float[Array, ""]
    max_shots: int = eqx.field(static=True)

    def __init__(self, model: PyTree[Any], beta: float = 0.1, eta: float = 1.0, max_shots: int = 20):
        check_max_shots(max_shots)
        self.log_beta = like_parameters(model, log_array("beta", beta))
        self.log_eta = log_array("eta", eta)
        self.max_shots = max_shots

    @classmethod
    def initial(cls, model: PyTree[Any], *, inner_rate: float, eta: float, max_shots: int) -> ScaledPerParameter:
        """Every β starts at the inner rate, η at `eta`."""
        return cls(model, inner_rate, eta, max_shots)

    @property
    def eta(self) -> Float[Array, ""]:
        """η, how fast the step grows with the shots."""
        return jnp.exp(self.log_eta)

    def named(self) -> dict[str, Float[Array, ""]]:
        """The learned number η; β is an array for each parameter."""
        return {"eta": self.eta}

    def __call__(self, shots: Count) -> PyTree[Float[Array, "..."]]:
        """The full step of every parameter, times the fraction that this many shots deserve."""
        check_single(shots)
        fraction = fraction_of_full_step(self.eta, at_most(shots, self.max_shots))
        return jax.tree.map(lambda log_beta: jnp.exp(log_beta) * fraction.astype(log_beta.dtype), self.log_beta)
