"""Meta-regularisation: Gaussian weights with learned standard deviations (paper, appendix C; Yin et al. 2020)."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from anyshot.inputs import check_positive


class GaussianWeights(eqx.Module):
    """q(θ; μ, σ): independent normal weights. μ and log σ are meta-learned; predictions use the mean.

    Args:
        mean: the model whose floating-point arrays are the means.
        std: initial standard deviation of every weight (the paper gives none; e^-4 is small beside usual weights).
        random: which arrays of the model are normal, as a PyTree of truth values; the others are numbers, which are not
            drawn and have no KL. By default all are normal.

    >>> weights = GaussianWeights(jnp.zeros(3), std=1.0)
    >>> print(weights.kl(), weights.draw(jax.random.key(0)).shape)
    0.0 (3,)
    """

    mean: PyTree[Any]
    log_std: PyTree[Float[Array, "..."]]

    def __init__(self, mean: PyTree[Any], std: float = 0.0183, random: PyTree[bool] | None = None):
        check_positive("std", std)
        self.mean = mean
        normal = eqx.filter(mean, eqx.is_inexact_array if random is None else random)
        self.log_std = jax.tree.map(lambda p: jnp.full(p.shape, jnp.log(std), p.dtype), normal)

    def draw(self, key: Key[Array, ""]) -> PyTree[Any]:
        """A model with weights μ + σ ε, ε standard normal."""
        mu, rest = eqx.partition(self.mean, self._is_normal())
        leaves, structure = jax.tree.flatten(mu)
        keys = jax.tree.unflatten(structure, list(jax.random.split(key, len(leaves))))
        drawn = jax.tree.map(
            lambda m, log_s, k: m + jnp.exp(log_s) * jax.random.normal(k, m.shape, m.dtype), mu, self.log_std, keys
        )
        return eqx.combine(drawn, rest)

    def kl(self) -> Float[Array, ""]:
        """KL(q || standard normal), summed over all normal weights: Σ ½ (σ² + μ² - 1) - log σ."""
        mu = eqx.filter(self.mean, self._is_normal())
        terms = jax.tree.map(lambda m, log_s: jnp.sum(0.5 * (jnp.exp(2 * log_s) + m**2 - 1) - log_s), mu, self.log_std)
        return sum(jax.tree.leaves(terms), start=jnp.zeros(()))

    def _is_normal(self) -> PyTree[bool]:
        return jax.tree.map(lambda log_s: log_s is not None, self.log_std, is_leaf=lambda leaf: leaf is None)
