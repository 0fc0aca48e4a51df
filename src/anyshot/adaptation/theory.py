"""Theorem 1 as code: how large a step s shots deserve, from the mean and the variance of the inner gradient.

With per-datapoint gradients g = ∇ℓ(h(x; θ), y) of a task,

    C1 = E_task [ Var g ]        the variance, summed over parameters
    C2 = E_task [ |E g|^2 ]      the squared length of the task's mean gradient
    α*_s = (1 - 1/(1 + (C2/C1) s)) β*

minimises the mean squared distance between the s-shot update and the update with the true gradient and step β*.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from anyshot.adaptation.losses import Loss
from anyshot.adaptation.update import check_fit
from anyshot.errors import InputError
from anyshot.inputs import is_known
from anyshot.rates import ClosedForm, Rate
from anyshot.rates.rule import Count
from anyshot.shots import Shots, check_is_shots

AnyRate = TypeVar("AnyRate", bound=Rate)


class GradientMoments(NamedTuple):
    """C1 and C2 of theorem 1: the variance of the inner gradient, and the squared length of its mean."""

    variance: Float[Array, ""]
    squared_mean: Float[Array, ""]


def gradient_moments(model: PyTree[Any], loss: Loss, shots: Shots) -> GradientMoments:
    """Unbiased estimates of C1 and C2 from the shots of several tasks (tasks with less than two are left out).

    The squared length of a sample mean overstates |E g|² by Var g / n, which is taken off. Noise can make the estimate
    of C2 negative; it is then 0: nothing is known to be gained by a step.

    >>> from anyshot.adaptation import squared_error
    >>> from anyshot.shots import Shots, stack_tasks
    >>> model = jax.tree_util.Partial(jnp.multiply, jnp.array(0.0))  # gradient of (0 - y)^2 at x=1: -2y
    >>> tasks = stack_tasks([Shots.of([1.0, 1.0], [1.0, 3.0])])
    >>> print(gradient_moments(model, squared_error, tasks))  # gradients -2, -6: variance 8, mean -4, 16 - 8/2
    GradientMoments(variance=Array(8., dtype=...), squared_mean=Array(12., dtype=...))
    """
    check_is_shots("shots", shots)
    if shots.count.ndim != 1 or shots.count.shape[0] == 0:
        raise InputError(
            f"shots must hold several tasks, with a task axis in front; got count of shape {shots.count.shape}"
        )
    shots.check()
    check_fit(model, loss, shots)
    if is_known(shots.count) and not (np.asarray(shots.count) >= 2).any():
        raise InputError("shots holds no task with two datapoints or more; a variance needs at least two")
    theta, rest = eqx.partition(model, eqx.is_inexact_array)

    def datapoint_gradient(x: Any, y: Any) -> Float[Array, " parameters"]:
        g = jax.grad(lambda at: loss(eqx.combine(at, rest)(x), y))(theta)
        return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(g)])

    def of_task(task: Shots) -> tuple[Array, Array]:
        task = task.without_padding_content()
        g = jax.vmap(datapoint_gradient)(task.x, task.y)
        present, n = task.present()[:, None], task.count.astype(g.dtype)
        mean = jnp.sum(g * present, axis=0) / jnp.maximum(n, 1)
        variance = jnp.sum(((g - mean) * present) ** 2) / jnp.maximum(n - 1, 1)
        return variance, jnp.sum(mean**2) - variance / jnp.maximum(n, 1)

    variances, squared_means = lax.map(of_task, shots)  # one task at a time: gradients of all datapoints are large
    usable = (shots.count >= 2) / jnp.maximum(jnp.sum(shots.count >= 2), 1)
    return GradientMoments(jnp.sum(variances * usable), jnp.maximum(jnp.sum(squared_means * usable), 0))


def optimal_rate(beta: float, moments: GradientMoments, shots: Count) -> Float[Array, "..."]:
    """α*_s of theorem 1: 0 for zero shots, β* in the limit of many.

    >>> print(f"{optimal_rate(0.1, GradientMoments(jnp.array(8.0), jnp.array(4.0)), 2):.3f}")
    0.050
    """
    largest = int(np.max(np.asarray(shots), initial=1)) if is_known(shots) else 2**31 - 1
    return ClosedForm(beta, *moments, max_shots=largest)(shots)


def remeasure(rate: AnyRate, model: PyTree[Any], loss: Loss, shots: Shots) -> AnyRate:
    """The rule after C1 and C2 have been measured for a model on the shots of several tasks, if the rule uses them.

    A variance needs two datapoints: if no task has so many, the rule stays as it is.
    """
    if is_known(shots.count) and not (np.asarray(shots.count) >= 2).any():
        return rate
    usable = jnp.any(shots.count >= 2)
    new = rate.remeasure(lambda: lax.stop_gradient(gradient_moments(model, loss, shots)))
    return rate if new is rate else jax.tree.map(lambda now, before: jnp.where(usable, now, before), new, rate)
