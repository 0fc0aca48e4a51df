"""A 3x3 convolution for batches of tasks that each have their own weights, at every order of derivative.

A convolution is bilinear in image x and weight w, so one trilinear form says everything about it:

    F(x, w, g) = sum over images, outputs: g . (patches(x) @ w.T)

Its three partial gradients are the three operations below, and each one's derivatives are the other two. They are
registered with JAX as primitives that know this, so that first, second and every higher derivative of a network stays
within the three, and a batch of tasks with own weights becomes batched matrix products. (`jax.vmap` of `lax.conv` over
weights becomes one grouped convolution instead, which takes 100 times as long on a CPU and 10 times on a GPU.)

Shapes inside the primitives carry a task axis t in front: images (t, n, h, w, c), weights (t, o, 9c). Each task has a
count of the images that are there; the rest is padding, which our GPU kernels leave out and other platforms compute.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax.export import is_symbolic_dim
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float, Int

from anyshot.errors import InputError
from anyshot.networks import convolution_xla
from anyshot.networks.convolution_tangent import join_tangents
from anyshot.networks.kernels import find_kernels
from anyshot.networks.patches import KERNEL
from anyshot.networks.primitive import batch_tasks, new_primitive
from anyshot.networks.sizes import check_precision


def convolve(
    x: Float[Array, "n h w c"],
    weight: Float[Array, "o k"],
    stride: int = 1,
    count: Int[Array, ""] | None = None,
    precision: str = "float32",
) -> Float[Array, "n i j o"]:
    """Convolve images with 3x3 kernels, padding 1.

    Args:
        x: images, channels last.
        weight: one row per output channel; its columns are the 3x3 taps row by row, each with all input channels.
        stride: 1 or 2.
        count: how many images, from the first, matter; None: all. The outputs of the others are right or zero,
            whichever is faster, and must not be used.
        precision: "float32", or "half" to multiply numbers that are rounded to float16's 11 bits, here and in all
            derivatives; sums are in float32 either way.

    >>> image = jnp.arange(16.0).reshape(1, 4, 4, 1)
    >>> sum_of_neighbours = jnp.ones((1, 9))
    >>> print(convolve(image, sum_of_neighbours, stride=2)[0, :, :, 0])
    [[10. 24.]
     [51. 90.]]
    """
    if stride not in (1, 2):
        raise InputError(f"stride must be 1 or 2, got {stride}")
    check_precision(precision)
    if weight.shape[1] != KERNEL**2 * x.shape[-1]:
        raise InputError(
            f"weight has {weight.shape[1]} columns; images with {x.shape[-1]} channels need {KERNEL**2 * x.shape[-1]}"
        )
    count = jnp.asarray(x.shape[0] if count is None else count, jnp.int32)
    return convolve_p.bind(x[None], weight[None], count[None], stride=stride, half=precision == "half")[0]


# The primitives: abstract shapes, lowering, batching, derivatives.


def suit_kernels(images: Array) -> bool:
    """Whether the kernels take such images: their number is known, which a program that is exported leaves open."""
    return images.dtype == jnp.float32 and not any(map(is_symbolic_dim, images.shape))


def _on_gpu(name: str) -> Callable[..., Array]:
    """The operation of one pair of arrays, or the sum of those of several, followed by the count."""
    plain: Callable[..., Array] = getattr(convolution_xla, name)

    def on_gpu(*arrays: Array, **sizes: int) -> Array:
        *factors, count = arrays
        pairs = list(zip(factors[::2], factors[1::2], strict=True))
        kernels = find_kernels("convolution_gpu") if suit_kernels(arrays[0]) else None
        if kernels is None:
            return functools.reduce(jnp.add, [plain(*pair, count, **sizes) for pair in pairs])
        return getattr(kernels, name)(pairs, count, **sizes)

    return on_gpu


def _primitive(name: str) -> Primitive:
    by_patches = getattr(convolution_xla, f"{name}_by_patches")
    primitive = new_primitive(name, getattr(convolution_xla, name))
    for_cpu = functools.partial(by_patches, patches=convolution_xla.FOR_CPU)
    mlir.register_lowering(primitive, mlir.lower_fun(for_cpu, multiple_results=False), platform="cpu")
    mlir.register_lowering(primitive, mlir.lower_fun(_on_gpu(name), multiple_results=False), platform="cuda")
    return primitive


convolve_p = _primitive("convolve")
input_gradient_p = _primitive("convolve_input_gradient")
weight_gradient_p = _primitive("convolve_weight_gradient")


for _p, _own in ((convolve_p, (1, 2)), (input_gradient_p, (1, 2)), (weight_gradient_p, ())):
    batching.primitive_batchers[_p] = functools.partial(batch_tasks, _p, _own)


def _sizes(x: Any) -> dict[str, int]:
    return {"height": x.aval.shape[2], "width": x.aval.shape[3]}


def _bilinear(primitive: Primitive, of_first: Callable[..., Array], of_second: Callable[..., Array]) -> None:
    """Make the derivatives of an operation known that is linear in each of its first two arrays."""

    def transposed(g: Any, first: Any, second: Any, count: Any, **sizes: int) -> tuple[Any, Any, None]:
        if type(g) is ad.Zero:
            return None, None, None
        if ad.is_undefined_primal(first):
            return of_first(g, first, second, count, **sizes), None, None
        return None, of_second(g, first, second, count, **sizes), None

    ad.defjvp(
        primitive,
        lambda d, first, second, count, **sizes: primitive.bind(d, second, count, **sizes),
        lambda d, first, second, count, **sizes: primitive.bind(first, d, count, **sizes),
        None,
    )
    ad.primitive_transposes[primitive] = transposed


_bilinear(
    convolve_p,
    lambda g, x, weight, count, **how: input_gradient_p.bind(g, weight, count, **how, **_sizes(x)),
    lambda g, x, weight, count, **how: weight_gradient_p.bind(x, g, count, **how),
)
_bilinear(
    input_gradient_p,
    lambda x, g, weight, count, height, width, **how: convolve_p.bind(x, weight, count, **how),
    lambda x, g, weight, count, height, width, **how: weight_gradient_p.bind(x, g, count, **how),
)
_bilinear(
    weight_gradient_p,
    lambda weight, x, g, count, **how: input_gradient_p.bind(g, weight, count, **how, **_sizes(x)),
    lambda weight, x, g, count, **how: convolve_p.bind(x, weight, count, **how),
)


def _join_input_gradients(
    g: Array, weight: Array, other_g: Array, other_weight: Array, *rest: Any, **sizes: int
) -> Any:
    both = jnp.concatenate([g, other_g], axis=-1), jnp.concatenate([weight, other_weight], axis=1)
    return input_gradient_p.bind(*both, *rest, **sizes)


join_tangents(convolve_p, {"cuda": _on_gpu("convolve")})
join_tangents(weight_gradient_p, {"cuda": _on_gpu("convolve_weight_gradient")})
join_tangents(input_gradient_p, {"cuda": _on_gpu("convolve_input_gradient"), "cpu": _join_input_gradients})
