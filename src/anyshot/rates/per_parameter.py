"""Meta-SGD: one learned step size for each parameter, whatever the number of shots."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from anyshot.rates.rule import Count, Rate, check_single, log_array


class PerParameter(Rate):
    """α shaped like the weights, learned (Li et al. 2017; the paper's FTML + Meta-SGD).

    >>> model = {"w": jnp.ones((3, 2)), "b": jnp.zeros(2)}
    >>> rate = PerParameter(model, alpha=0.1)
    >>> print(jax.tree.map(jnp.shape, rate(4)))
    {'b': (2,), 'w': (3, 2)}
    """

    log_alpha: PyTree[Float[Array, "..."]]

    def __init__(self, model: PyTree[Any], alpha: float = 0.1):
        self.log_alpha = like_parameters(model, log_array("alpha", alpha))

    @classmethod
    def initial(cls, model: PyTree[Any], *, inner_rate: float, eta: float, max_shots: int) -> PerParameter:
        """Every α starts at the inner rate."""
        return cls(model, inner_rate)

    def __call__(self, shots: Count) -> PyTree[Float[Array, "..."]]:
        """The learned step size of every parameter."""
        check_single(shots)
        return jax.tree.map(jnp.exp, self.log_alpha)


def like_parameters(model: PyTree[Any], value: Float[Array, ""]) -> PyTree[Float[Array, "..."]]:
    """`value` in the shape and dtype of each floating-point array of the model, None elsewhere."""
    parameters = eqx.filter(model, eqx.is_inexact_array)
    return jax.tree.map(lambda p: jnp.full(p.shape, value, p.dtype), parameters)
