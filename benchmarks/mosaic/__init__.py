"""The kernels of `convolution_halves_gpu` in Pallas on Mosaic GPU, for Hopper: TMA copies, products of warp groups.

They compute what those of `convolution_halves_gpu` do where images have as many channels as the outputs, 32 or 64, and
need JAX 0.11.2 or newer. To time a meta-gradient with them:

    make bench BENCH="--network siamese --size 84 --tasks 16 --mosaic"
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from anyshot.networks import convolution_halves_gpu
from anyshot.networks.convolution_halves_gpu import Count, Halves, Pairs, split, turn

from .convolution import convolve_halves
from .weights import weight_gradient


def convolve(pairs: Pairs, count: Count, half: bool = False, **options: Any) -> Any:
    """Convolve images (t, n, h, w, c) with each task's weights (t, o, k), and add what several pairs of both give."""
    return _convolve_all([(split(x, count), split(weight)) for x, weight in pairs], count, half, **options)


def convolve_input_gradient(pairs: Pairs, count: Count, half: bool = False, **options: Any) -> Any:
    """The adjoint of `convolve` in x: a convolution with weights turned round."""
    return _convolve_all([(split(g, count), turn(split(weight))) for g, weight in pairs], count, half, **options)


def convolve_weight_gradient(pairs: Pairs, count: Count, half: bool = False, **options: Any) -> Any:
    """The adjoint of `convolve` in weight, for pairs of images and gradients (t, n, h, w, o)."""
    products = (weight_gradient(split(x, count), split(g, count), count, half, **options) for x, g in pairs)
    return functools.reduce(jnp.add, products)


def _convolve_all(factors: Sequence[tuple[Halves, Halves]], count: Count, half: bool, **options: Any) -> Any:
    total = None
    for x, weight in factors:
        total = convolve_halves(x, weight, count, half, total, **options)
    return total


def take_over() -> None:
    """Have anyshot use these operations in the place of those of `convolution_halves_gpu`, where they can be."""
    fits = convolution_halves_gpu.fits
    for operation in (convolve, convolve_input_gradient, convolve_weight_gradient):
        setattr(convolution_halves_gpu, operation.__name__, operation)
    convolution_halves_gpu.fits = lambda rows, channels, outputs, stride: (
        channels == outputs and fits(rows, channels, outputs, stride)
    )
