"""MAML-VS and FTML-VS: the paper's rule, two learned numbers for all numbers of shots."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from anyshot.rates.rule import Count, Rate, at_most, check_max_shots, fraction_of_full_step, log_array


class Scaled(Rate):
    """α_s = β (1 - 1/(1 + ηs)), β and η learned (paper, section 4.2, after theorem 1).

    β is the step for infinitely many shots, η the ratio C2/C1 of the squared mean gradient to the gradient's variance.

    >>> rate = Scaled(beta=0.1, eta=1.0)
    >>> print([f"{rate(s):.3f}" for s in (0, 1, 4, 20, 1000)])  # 1000 shots count as M = 20
    ['0.000', '0.050', '0.080', '0.095', '0.095']
    """

    log_beta: Float[Array, ""]
    log_eta: Float[Array, ""]
    max_shots: int = eqx.field(static=True)

    def __init__(self, beta: float = 0.1, eta: float = 1.0, max_shots: int = 20):
        check_max_shots(max_shots)
        self.log_beta = log_array("beta", beta)
        self.log_eta = log_array("eta", eta)
        self.max_shots = max_shots

    @classmethod
    def initial(cls, model: PyTree[Any], *, inner_rate: float, eta: float, max_shots: int) -> Scaled:
        """β starts at the inner rate, η at `eta`."""
        return cls(inner_rate, eta, max_shots)

    @property
    def beta(self) -> Float[Array, ""]:
        """β, the step size for infinitely many shots."""
        return jnp.exp(self.log_beta)

    @property
    def eta(self) -> Float[Array, ""]:
        """η, how soon the gradient can be trusted: half the full step is taken at s = 1/η."""
        return jnp.exp(self.log_eta)

    def named(self) -> dict[str, Float[Array, ""]]:
        """The learned numbers β and η."""
        return {"beta": self.beta, "eta": self.eta}

    def __call__(self, shots: Count) -> Float[Array, "..."]:
        """The step size β (1 - 1/(1 + ηs))."""
        return self.beta * fraction_of_full_step(self.eta, at_most(shots, self.max_shots))
