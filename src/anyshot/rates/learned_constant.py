"""MAML and FTML with a learned step size: one number for all numbers of shots."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from anyshot.inputs import check_count
from anyshot.rates.rule import Count, Rate, log_array


class LearnedConstant(Rate):
    """α_s = α, learned. It shows what a rule gains by learning alone, without regard to the number of shots.

    >>> rate = LearnedConstant()
    >>> print([f"{rate(s):.2f}" for s in (0, 1, 20)])
    ['0.10', '0.10', '0.10']
    """

    log_alpha: Float[Array, ""]

    def __init__(self, alpha: float = 0.1):
        self.log_alpha = log_array("alpha", alpha)

    @classmethod
    def initial(cls, model: PyTree[Any], *, inner_rate: float, eta: float, max_shots: int) -> LearnedConstant:
        """α starts at the inner rate."""
        return cls(inner_rate)

    def __call__(self, shots: Count) -> Float[Array, "..."]:
        """The learned α, the same for every number of shots."""
        check_count("shots", shots)
        return jnp.broadcast_to(jnp.exp(self.log_alpha), jnp.shape(shots))
