"""MAML-VL and FTML-VL: one learned step size for each number of shots."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from anyshot.rates.rule import Count, Rate, at_most, check_max_shots, log_array


class PerShot(Rate):
    """α_s learned for each s in 0..M (paper, section 4.2: variable-shot and learning).

    >>> rate = PerShot(0.1, max_shots=20)
    >>> print(rate.log_alpha.shape, f"{rate(5):.2f} {rate(100):.2f}")
    (21,) 0.10 0.10
    """

    log_alpha: Float[Array, " M+1"]
    max_shots: int = eqx.field(static=True)

    def __init__(self, alpha: float = 0.1, max_shots: int = 20):
        check_max_shots(max_shots)
        self.log_alpha = jnp.full(max_shots + 1, log_array("alpha", alpha))
        self.max_shots = max_shots

    @classmethod
    def initial(cls, model: PyTree[Any], *, inner_rate: float, eta: float, max_shots: int) -> PerShot:
        """Every α_s starts at the inner rate."""
        return cls(inner_rate, max_shots)

    def __call__(self, shots: Count) -> Float[Array, "..."]:
        """The step size learned for this number of shots."""
        return jnp.exp(self.log_alpha[at_most(shots, self.max_shots)])
