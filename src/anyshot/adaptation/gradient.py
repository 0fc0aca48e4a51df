"""The inner gradient ∇L̂(θ), differentiable in θ at the price of a Hessian-vector product.

Differentiating a gradient step backwards multiplies by the Hessian's transpose. A Hessian is symmetric, so that is a
Hessian-vector product, and forward-over-reverse computes it: no reverse pass over a reverse pass. That is exact and
works for any model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from anyshot.adaptation.losses import Loss
from anyshot.shots import Shots

Parameters = PyTree[Float[Array, "..."]]  # the floating-point arrays of a model, None for its other leaves


def mean_loss(theta: Parameters, rest: PyTree[Any], loss: Loss, shots: Shots) -> Float[Array, ""]:
    """L̂(θ): the mean loss over the datapoints present; 0 if there are none."""
    model = eqx.combine(theta, rest)
    losses = jax.vmap(loss)(outputs(model, shots), shots.y)
    weight = shots.present() / jnp.maximum(shots.count, 1).astype(losses.dtype)
    return jnp.sum(losses * weight)


def outputs(model: PyTree[Any], shots: Shots) -> PyTree[Array]:
    """The model's output for each row of shots.

    A model may have a method `for_shots(x, count)` that does better than one row after another: of its rows from
    `count` on, the padding, only the shape matters, and that they are finite.
    """
    if hasattr(model, "for_shots"):
        return model.for_shots(shots.x, shots.count)
    return jax.vmap(model)(shots.x)


@eqx.filter_custom_vjp
def gradient(theta: Parameters, rest: PyTree[Any], loss: Loss, shots: Shots) -> Parameters:
    """∇L̂(θ). Its own derivative is taken in θ only: no gradient flows into the shots."""
    return jax.grad(mean_loss)(theta, rest, loss, shots)


def _forward(
    _perturbed: Any, theta: Parameters, rest: PyTree[Any], loss: Loss, shots: Shots
) -> tuple[Parameters, Callable[[Parameters], Parameters]]:
    return jax.linearize(lambda at: jax.grad(mean_loss)(at, rest, loss, shots), theta)


def _backward(
    hessian_times: Callable[[Parameters], Parameters],
    direction: Parameters,
    _perturbed: Any,
    theta: Parameters,
    *_rest_loss_shots: Any,
) -> Parameters:
    # A leaf of θ on which nothing downstream depends has no direction: zero.
    return hessian_times(jax.tree.map(lambda t, d: jnp.zeros_like(t) if d is None else d, theta, direction))


gradient.def_fwd(_forward)
gradient.def_bwd(_backward)
