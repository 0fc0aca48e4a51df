"""MAML and FTML: one fixed step size, whatever the number of shots."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from anyshot.inputs import check_count, check_positive
from anyshot.rates.rule import Count, Rate


class Constant(Rate):
    """α_s = α, not learned (paper, section 4.1: the naive solution).

    >>> print(Constant(0.1)(3))
    0.1
    """

    alpha: float = eqx.field(static=True)

    def __init__(self, alpha: float = 0.1):
        check_positive("alpha", alpha)
        self.alpha = float(alpha)

    @classmethod
    def initial(cls, model: PyTree[Any], *, inner_rate: float, eta: float, max_shots: int) -> Constant:
        """α is the inner rate."""
        return cls(inner_rate)

    def __call__(self, shots: Count) -> Float[Array, "..."]:
        """The same α for every number of shots."""
        check_count("shots", shots)
        return jnp.full(jnp.shape(shots), self.alpha)
