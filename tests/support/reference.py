"""The meta-objective written down naively: no padding, one task at a time, plain `jax.grad` of `jax.grad`.

Nothing here is shared with the package but the rate rules' raw parameters; formulas are written anew from the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

Task = tuple[Any, Any, Any, Any]  # train x, train y, val x, val y: exactly the datapoints there are


def mean_cross_entropy(model: Any, x: Any, y: Any) -> Any:
    logits = jax.vmap(model)(x)
    probabilities = jnp.exp(logits) / jnp.sum(jnp.exp(logits), axis=1, keepdims=True)
    return -jnp.mean(jnp.log(probabilities[jnp.arange(len(y)), y]))


def mean_squared_error(model: Any, x: Any, y: Any) -> Any:
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


def step_size(kind: str, raw: dict[str, Any], shots: int, maximum: int) -> Any:
    """α_s from the raw numbers that are learned, as the paper (and Li et al. for Meta-SGD) gives it."""
    s = min(shots, maximum)
    if kind == "Constant":
        return raw["alpha"]
    if kind == "LearnedConstant":
        return jnp.exp(raw["log_alpha"])
    if kind == "PerShot":
        return jnp.exp(raw["log_alpha"][s])
    if kind == "Scaled":
        return jnp.exp(raw["log_beta"]) * (1 - 1 / (1 + jnp.exp(raw["log_eta"]) * s))
    if kind == "PerParameter":
        return jax.tree.map(jnp.exp, raw["log_alpha"])
    if kind == "ScaledPerParameter":
        return jax.tree.map(lambda b: jnp.exp(b) * (1 - 1 / (1 + jnp.exp(raw["log_eta"]) * s)), raw["log_beta"])
    if kind == "ClosedForm":
        return jnp.exp(raw["log_beta"]) * (1 - 1 / (1 + raw["c2"] / raw["c1"] * s))
    raise ValueError(kind)


def adapted(theta: Any, alpha: Any, x: Any, y: Any, loss: Callable[..., Any], steps: int, clip: float | None) -> Any:
    """N gradient steps on the datapoints given; with none, θ."""
    if len(y) == 0:
        return theta
    for _ in range(steps):
        g = jax.grad(loss)(theta, x, y)
        if clip is not None:
            norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(g)))
            g = jax.tree.map(lambda leaf, n=norm: leaf * jnp.where(n > clip, clip / n, 1.0), g)
        if isinstance(alpha, jax.Array | float):
            theta = jax.tree.map(lambda p, d: p - alpha * d, theta, g)
        else:
            theta = jax.tree.map(lambda p, a, d: p - a * d, theta, alpha, g)
    return theta


def objective(
    theta: Any,
    kind: str,
    raw: dict[str, Any],
    tasks: Sequence[Task],
    maximum: int,
    loss: Callable[..., Any],
    steps: int,
    clip: float | None,
) -> Any:
    """Mean over tasks of the validation loss after adaptation."""
    total = 0.0
    for train_x, train_y, val_x, val_y in tasks:
        alpha = step_size(kind, raw, len(train_y), maximum)
        total += loss(adapted(theta, alpha, train_x, train_y, loss, steps, clip), val_x, val_y)
    return total / len(tasks)


def kl_to_standard_normal(mean: Any, log_std: Any) -> Any:
    """KL of independent normals from a standard normal, weight by weight, from the general formula."""
    total = 0.0
    for m, s in zip(jax.tree.leaves(mean), jax.tree.leaves(log_std), strict=True):
        variance = jnp.exp(s) ** 2
        total += jnp.sum(0.5 * (variance / 1.0 + (0.0 - m) ** 2 / 1.0 - 1.0 + jnp.log(1.0 / variance)))
    return total
