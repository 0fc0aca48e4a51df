"""How the networks' own operations are made known to JAX; derivatives are each operation's own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jaxtyping import Array


def new_primitive(name: str, operation: Callable[..., Array]) -> Primitive:
    """A primitive that computes `operation` on every platform without a lowering of its own."""
    primitive = Primitive(f"anyshot_{name}")

    def evaluate(*arrays: Array, **sizes: Any) -> Array:
        return jax.jit(functools.partial(primitive.bind, **sizes))(*arrays)

    def shape(*arrays: Any, **sizes: Any) -> Any:
        out = jax.eval_shape(functools.partial(operation, **sizes), *arrays)
        return jax.core.ShapedArray(out.shape, out.dtype)

    primitive.def_impl(evaluate)
    primitive.def_abstract_eval(shape)
    mlir.register_lowering(primitive, mlir.lower_fun(operation, multiple_results=False))
    return primitive


def batch_tasks(
    primitive: Primitive, own: tuple[int, ...], arrays: tuple[Array, ...], axes: tuple[int | None, ...], **sizes: int
) -> tuple[Array, int]:
    """Give the batch to the tasks' axis, the first, or, where a task's own arrays are shared, to the images' axis.

    Args:
        primitive: that is batched.
        own: which arrays a task has of its own (the others are of images), the last of them the count of images;
            empty if the result is not one of images, so that the batch always goes to the tasks.
        arrays: that it is applied to.
        axes: of the batch.
        **sizes: of the primitive.
    """
    size = next(a.shape[axis] for a, axis in zip(arrays, axes, strict=True) if axis is not None)
    if own and all(axes[k] is None for k in own):
        given = list(arrays)
        for k in set(range(len(arrays))) - set(own):
            images = arrays[k][:, None] if axes[k] is None else jnp.moveaxis(arrays[k], axes[k] or 0, 1)
            images = jnp.broadcast_to(images, (images.shape[0], size, *images.shape[2:]))
            given[k] = images.reshape(images.shape[0], -1, *images.shape[3:])
        # Every image, as those that are there need not be the first any more.
        given[own[-1]] = jnp.full_like(arrays[own[-1]], given[0].shape[1])
        out = primitive.bind(*given, **sizes)
        return out.reshape(out.shape[0], size, -1, *out.shape[2:]), 1
    per_task = [
        jnp.broadcast_to(a, (size, *a.shape)) if axis is None else jnp.moveaxis(a, axis, 0)
        for a, axis in zip(arrays, axes, strict=True)
    ]
    out = primitive.bind(*(a.reshape(-1, *a.shape[2:]) for a in per_task), **sizes)
    return out.reshape(size, -1, *out.shape[1:]), 0
