"""A convolution with bias and leaky ReLU as one operation: the first layer of a network for large images, on a GPU.

The result of such a layer is large, and passes over it that add a bias, rectify, or multiply gradients by 1 or the
slope take time. Here the kernels do it on the way. Derivatives keep one byte for each number, the gate: 1 where the
result is not negative, else 0. At a gate that does not move, the layer is linear in weight and bias, and derivatives in
these stay within three operations ("gate ." multiplies by the slope where the gate is 0):

    layer(x, w, b) = gate . (convolve(x, w) + b)
    of_weight(x, g) = weight_gradient(x, gate . g)        of_bias(g) = sum over images and pixels of gate . g

Derivatives in the images, which a first layer seldom needs, are those of `convolution`. There is no stride but 1.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float, Int

from anyshot.networks.convolution import convolve_p, suit_kernels, weight_gradient_p
from anyshot.networks.kernels import find_kernels
from anyshot.networks.layers import SLOPE
from anyshot.networks.primitive import batch_tasks, new_primitive


def convolve_and_rectify(
    x: Float[Array, "n h w c"],
    weight: Float[Array, "o k"],
    bias: Float[Array, " o"],
    count: Int[Array, ""] | None,
    precision: str = "float32",
) -> Float[Array, "n h w o"]:
    """leaky_relu(convolve(x, weight, 1, count, precision) + bias).

    >>> print(convolve_and_rectify(jnp.ones((1, 1, 2, 1)), jnp.ones((1, 9)), jnp.array([-3.0]), None).reshape(-1))
    [-0.01 -0.01]
    """
    count = jnp.asarray(x.shape[0] if count is None else count, jnp.int32)
    return _layer_p.bind(x[None], weight[None], bias[None], count[None], half=precision == "half")[0]


# What the primitives compute where there are no kernels. Arrays carry a task axis t in front: images, gradients and
# gates are (t, n, h, w, o), weights (t, o, k), biases (t, o).


def _gated(numbers: Array, gate: Array) -> Array:
    return jnp.where(gate > 0, numbers, SLOPE * numbers)


def _layer(x: Array, w: Array, b: Array, count: Array, *gate: Array, half: bool) -> Array:
    """Without a gate, the layer itself."""
    y = convolve_p.bind(x, w, count, stride=1, half=half) + b[:, None, None, None, :]
    return _gated(y, *(gate or [y]))


def _of_weight(x: Array, g: Array, count: Array, gate: Array, *, half: bool) -> Array:
    return weight_gradient_p.bind(x, _gated(g, gate), count, stride=1, half=half)


def _of_bias(g: Array, gate: Array) -> Array:
    return _gated(g, gate).sum(axis=(1, 2, 3))


def _primitive(operation: Callable[..., Array], own: tuple[int, ...], module: str, kernel: str) -> Primitive:
    def on_gpu(*arrays: Array, **how: bool) -> Array:
        kernels = find_kernels(module) if suit_kernels(arrays[0]) else None
        return operation(*arrays, **how) if kernels is None else getattr(kernels, kernel)(*arrays, slope=SLOPE, **how)

    primitive = new_primitive(f"rectified{operation.__name__}", operation)
    mlir.register_lowering(primitive, mlir.lower_fun(on_gpu, multiple_results=False), platform="cuda")
    batching.primitive_batchers[primitive] = functools.partial(batch_tasks, primitive, own)
    return primitive


_layer_p = _primitive(_layer, (1, 2, 3), "convolution_gpu", "convolve_and_rectify")
_of_weight_p = _primitive(_of_weight, (), "convolution_gpu", "rectified_weight_gradient")
_of_bias_p = _primitive(_of_bias, (), "bias_gpu", "sum_pixels")


# Derivatives.


def _layer_jvp(primals: Sequence[Array], tangents: Sequence[Any], *, half: bool) -> tuple[Array, Array]:
    (x, w, _, count, *given), (dx, dw, db, *_) = primals, tangents
    h = _layer_p.bind(*primals, half=half)
    gate = given[0] if given else (h >= 0).astype(jnp.int8)
    moved = _layer_p.bind(x, ad.instantiate_zeros(dw), ad.instantiate_zeros(db), count, gate, half=half)
    if type(dx) is not ad.Zero:
        moved += _gated(convolve_p.bind(dx, w, count, stride=1, half=half), gate)
    return h, moved


ad.primitive_jvps[_layer_p] = _layer_jvp
ad.defjvp(
    _of_weight_p,
    lambda d, x, g, count, gate, half: weight_gradient_p.bind(d, _gated(g, gate), count, stride=1, half=half),
    lambda d, x, g, count, gate, half: _of_weight_p.bind(x, d, count, gate, half=half),
    None,
    None,
)
ad.defjvp(_of_bias_p, lambda d, g, gate: _of_bias_p.bind(d, gate), None)


def _layer_transpose(ct: Any, x: Any, w: Any, b: Any, count: Any, gate: Any, *, half: bool) -> list[Any]:
    of_weight = _of_weight_p.bind(x, ct, count, gate, half=half) if ad.is_undefined_primal(w) else None
    return [None, of_weight, _of_bias_p.bind(ct, gate) if ad.is_undefined_primal(b) else None, None, None]


def _of_weight_transpose(ct: Any, x: Any, g: Any, count: Any, gate: Any, *, half: bool) -> list[Any]:
    return [None, _layer_p.bind(x, ct, jnp.zeros(ct.shape[:2], ct.dtype), count, gate, half=half), None, None]


def _of_bias_transpose(ct: Any, g: Any, gate: Any) -> list[Any]:
    return [_gated(jnp.broadcast_to(ct[:, None, None, None, :], gate.shape), gate), None]


def _transpose(rule: Callable[..., list[Any]], ct: Any, *arrays: Any, **how: bool) -> list[Any]:
    return [None] * len(arrays) if type(ct) is ad.Zero else rule(ct, *arrays, **how)


ad.primitive_transposes[_layer_p] = functools.partial(_transpose, _layer_transpose)
ad.primitive_transposes[_of_weight_p] = functools.partial(_transpose, _of_weight_transpose)
ad.primitive_transposes[_of_bias_p] = functools.partial(_transpose, _of_bias_transpose)
