"""How the networks' own operations are made known to JAX; batching and derivatives are each operation's own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
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
