"""The operations without our GPU kernels, the kernels of half floats, and the choice between both."""

from __future__ import annotations

import functools
import logging
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

from anyshot.adaptation import MetaObjective, Update
from anyshot.errors import InputError
from anyshot.networks import Conv4, convolution_xla, convolve, kernels, siamese
from anyshot.networks import convolution_halves_gpu as halves
from anyshot.networks.bias import add_bias
from anyshot.rates import Constant
from anyshot.shots import Episodes, Shots

NEEDS_GPU = pytest.mark.skipif(jax.default_backend() != "gpu", reason="there is no GPU")
PALLAS = "jax.experimental.pallas.triton"


def normal(*shape: int) -> Any:
    return jnp.asarray(np.random.default_rng(sum(shape)).normal(size=shape), jnp.float32)


def differs(ours: Any, expected: Any) -> float:
    return max(
        float(np.linalg.norm(np.asarray(a, float) - b) / np.linalg.norm(np.asarray(b, float)))
        for a, b in zip(ours, expected, strict=True)
    )


def reference(x: Any, weight: Any, g: Any, stride: int) -> Any:
    """The three operations in float64, by JAX's own derivatives of JAX's own convolution."""

    def of_task(x: Any, weight: Any) -> Any:
        kernel = weight.reshape(-1, 3, 3, x.shape[-1]).transpose(1, 2, 3, 0)
        strides, padding = (stride, stride), ((1, 1), (1, 1))
        return lax.conv_general_dilated(x, kernel, strides, padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))

    y, backward = jax.vjp(jax.vmap(of_task), x.astype(float), weight.astype(float))
    return (y, *backward(g.astype(float)))


@pytest.mark.parametrize("pairs", [1, 2])
@pytest.mark.parametrize("interpret", [True, pytest.param(False, marks=[pytest.mark.gpu, NEEDS_GPU])])
def test_kernels_of_halves(pairs: int, interpret: bool) -> None:
    """Float32's accuracy at any scale, each task with its own; images behind the count, here NaN, reach nothing.

    Of two pairs the results are added; each array has its own scale then, too.
    """
    counts = jnp.array([3, 2, 0], jnp.int32)
    there = (jnp.arange(3) < counts[:, None])[..., None, None, None]

    def sized(array: Any, *scales: float) -> Any:
        return array * jnp.array(scales, jnp.float32).reshape(-1, *[1] * (array.ndim - 1))

    x, weight = sized(normal(3, 3, 5, 4, 32), 1e20, 1e-25, 1.0), sized(normal(3, 64, 288), 1e-3, 1e5, 1.0)
    g = sized(normal(3, 3, 5, 4, 64), 1e-10, 1e10, 1.0)
    other = (
        sized(x[:, ::-1], 8.0, 0.1, 1.0),
        sized(weight[:, ::-1], 0.1, 8.0, 1.0),
        sized(g[:, :, ::-1], 9.0, 0.2, 1.0),
    )
    given = [(x, weight, g), other][:pairs]

    @jax.jit
    def ours(given: Any) -> Any:
        y = halves.convolve([(x, weight) for x, weight, _ in given], counts, interpret=interpret)
        d_x = halves.convolve_input_gradient([(g, weight) for _, weight, g in given], counts, interpret=interpret)
        d_weight = halves.convolve_weight_gradient([(x, g) for x, _, g in given], counts, interpret=interpret)
        return y, d_x, d_weight

    found = ours([(jnp.where(there, x, jnp.nan), weight, jnp.where(there, g, jnp.nan)) for x, weight, g in given])
    expected = [reference(x, weight, jnp.where(there, g, 0.0), 1) for x, weight, g in given]
    y, d_x, d_weight = (functools.reduce(jnp.add, terms) for terms in zip(*expected, strict=True))
    for task, count in enumerate(counts.tolist()):
        of_task = [np.asarray(a[task], float) for a in found]
        if count == 0:
            assert not any(a.any() for a in of_task)
        else:
            assert differs(of_task, (jnp.where(there, y, 0.0)[task], d_x[task], d_weight[task])) < 3e-7


@pytest.mark.parametrize("large", [2**20, 4000, 1])
@pytest.mark.parametrize("stride", [1, 2])
def test_operations_of_xla(large: int, stride: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in for the kernels on any platform, in float64: all images at a time, two or three, and one."""
    monkeypatch.setattr(convolution_xla, "LARGE", large)
    x, weight, count = normal(2, 6, 7, 6, 2), normal(2, 5, 18), jnp.full(2, 6, jnp.int32)
    g = normal(2, 6, *(4, 3) if stride == 2 else (7, 6), 5)
    x, weight, g = (a.astype(float) for a in (x, weight, g))
    how: Any = {"stride": stride, "half": False}

    @jax.jit
    def ours(x: Any, weight: Any, g: Any) -> Any:
        d_x = convolution_xla.convolve_input_gradient(g, weight, count, height=7, width=6, **how)
        d_weight = convolution_xla.convolve_weight_gradient(x, g, count, **how)
        return convolution_xla.convolve(x, weight, count, **how), d_x, d_weight

    text = ours.lower(x, weight, g).as_text()
    assert ("stablehlo.while" in text) == (large < 2**20)
    assert differs(ours(x, weight, g), reference(x, weight, g, stride)) < 1e-12


@pytest.mark.slow
def test_meta_gradient_of_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """In float32 with three products of halves for each product, a meta-gradient has float32's accuracy; with one not.

    Of a smooth network: a kink that is decided by the last bit would move it by more than any of that.
    """
    monkeypatch.setattr(siamese, "leaky_relu", lambda x: 0.5 * (x + jnp.sqrt(x * x + 1)))
    monkeypatch.setattr(
        siamese, "max_pool", lambda x: x.reshape(x.shape[0] // 2, 2, x.shape[1] // 2, 2, -1).mean((1, 3))
    )
    net = siamese.Siamese((8, 8, 3), channels=32, key=jax.random.key(0))
    x, y, counts = normal(2, 4, 2, 8, 8, 3), jnp.array([[0, 1, 1, 0]] * 2), jnp.array([2, 4], jnp.int32)
    objective = MetaObjective(Update(steps=3), batching="together")

    def meta_gradient(dtype: Any) -> Any:
        shots = Shots(x.astype(dtype), y, counts)
        arrays = jax.tree.map(lambda leaf: leaf.astype(jnp.float32).astype(dtype), net)
        program = jax.jit(lambda net: objective.value_and_grad(net, Constant(0.1), Episodes(shots, shots))[1][0])
        return np.concatenate([np.asarray(leaf, float).ravel() for leaf in jax.tree.leaves(program(arrays))])

    def multiply(products: int, a: Any, b: Any, half: bool) -> Any:
        left, right = halves.split(a), halves.split(b)
        pairs = [(left.high, right.high), (left.high, right.low), (left.low, right.high)][:products]
        terms = [jnp.matmul(p.astype(a.dtype), q.astype(a.dtype), precision="highest") for p, q in pairs]
        units = halves.unit(left.largest) * halves.unit(right.largest)
        return functools.reduce(jnp.add, terms[::-1]) * units[:, None, None]

    expected = meta_gradient(jnp.float64)
    apart = []
    for products in (3, 1):
        monkeypatch.setattr(convolution_xla, "_matmul", functools.partial(multiply, products))
        apart.append(differs([meta_gradient(jnp.float32)], [expected]))
    assert apart[0] < 5e-6 < 1e-4 < apart[1]


def lower_for_a_gpu(function: Any, *arrays: Any) -> str:
    """The program for NVIDIA GPUs, wherever this runs."""
    card = AbstractDevice(device_kind="NVIDIA H200", num_cores=None, platform="gpu")
    with use_abstract_mesh(AbstractMesh((1,), ("x",), abstract_device=card)):
        return jax.jit(function).trace(*arrays).lower(lowering_platforms=("cuda",)).as_text()


def test_wide_convolutions_of_large_images_are_multiplied_in_halves() -> None:
    def lowered(images: int, side: int, channels: int, stride: int) -> str:
        def loss(weight: Any, x: Any) -> Any:
            return jnp.sum(convolve(convolve(x, weight, stride), weight, stride) ** 2)

        x = jax.ShapeDtypeStruct((images, side, side, channels), jnp.float32)
        weight = jax.ShapeDtypeStruct((channels, 9 * channels), jnp.float32)
        return lower_for_a_gpu(jax.grad(loss), weight, x)

    assert "xf16>" in lowered(40, 42, 32, 1)
    for small in ((40, 21, 32, 1), (40, 42, 16, 1), (200, 42, 32, 2)):  # pixels, channels, stride
        text = lowered(*small)
        assert "xf16>" not in text
        assert "xla.gpu.triton" in text


def lowered_for_a_gpu() -> str:
    """A gradient with all three operations and the sum of a bias, as a program for NVIDIA GPUs."""

    def loss(weight: Any, bias: Any, x: Any) -> Any:
        return jnp.sum(add_bias(convolve(convolve(x, weight), weight), bias) ** 2)

    arrays = (normal(4, 36), normal(4), normal(2, 6, 5, 4))
    return lower_for_a_gpu(jax.grad(loss, (0, 1)), *arrays)


@pytest.fixture
def asked_anew(monkeypatch: pytest.MonkeyPatch) -> Any:
    """As in a process that has not looked for the kernels yet."""
    for name in [n for n in sys.modules if n.startswith("anyshot.networks.") and n.endswith("_gpu")]:
        monkeypatch.delitem(sys.modules, name)
    for cache in (kernels._load, kernels._log_once):
        cache.cache_clear()
    yield
    for cache in (kernels._load, kernels._log_once):
        cache.cache_clear()


@pytest.mark.usefixtures("asked_anew")
def test_kernels_are_used_unless_switched_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert lowered_for_a_gpu().count("xla.gpu.triton") >= 4
    assert not caplog.records
    monkeypatch.setenv(kernels.SWITCH, "off")
    assert "triton" not in lowered_for_a_gpu()
    assert "triton" not in lowered_for_a_gpu()
    assert [r.levelno for r in caplog.records] == [logging.WARNING]
    monkeypatch.setenv(kernels.SWITCH, "maybe")
    with pytest.raises(InputError, match="maybe"):
        lowered_for_a_gpu()


@pytest.mark.usefixtures("asked_anew")
def test_without_pallas(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A JAX without the part of Pallas that the kernels are written in: XLA computes, and one line says so."""
    monkeypatch.setitem(sys.modules, PALLAS, None)
    monkeypatch.delattr(sys.modules["jax.experimental.pallas"], "triton", raising=False)
    assert "triton" not in lowered_for_a_gpu()
    assert len(caplog.records) == 1


@pytest.mark.gpu
@NEEDS_GPU
def test_same_gradient_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = Conv4((28, 28, 3), 10, key=jax.random.key(0)), normal(8, 28, 28, 3)

    def gradient() -> Any:
        def loss(net: Any) -> Any:
            return jnp.sum(jnp.sin(net.for_shots(x, jnp.int32(5))[:5]))

        return jax.tree.leaves(jax.jit(functools.partial(jax.grad(loss)))(net))

    expected = gradient()
    monkeypatch.setenv(kernels.SWITCH, "off")
    assert differs(gradient(), expected) < 1e-5
