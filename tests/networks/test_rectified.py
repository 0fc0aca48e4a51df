"""A convolution with bias and leaky ReLU as one operation."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from anyshot.networks import Conv4, Siamese, StackedPairs, convolve, leaky_relu
from anyshot.networks import convolution_gpu as gpu
from anyshot.networks.bias import add_bias
from anyshot.networks.bias_gpu import sum_pixels
from anyshot.networks.layers import SLOPE
from anyshot.networks.rectified import convolve_and_rectify
from tests.networks.test_kernels import NEEDS_GPU, differs, lower_for_a_gpu, normal, reference


@pytest.mark.parametrize(("channels", "outputs"), [(3, 5), (16, 65)])
@pytest.mark.parametrize("interpret", [True, pytest.param(False, marks=[pytest.mark.gpu, NEEDS_GPU])])
def test_kernels_with_gates(channels: int, outputs: int, interpret: bool) -> None:
    """Bias, activation and gate in a kernel; images behind the count, here NaN, reach no other."""
    counts = jnp.array([2, 3], jnp.int32)
    there = (jnp.arange(3) < counts[:, None])[..., None, None, None]
    x, weight, bias = normal(2, 3, 5, 6, channels), normal(2, outputs, 9 * channels), normal(2, outputs)
    g = normal(2, 3, 5, 6, outputs)
    gate = (g[:, :, ::-1] > 0).astype(jnp.int8)

    def gated(numbers: Any, gate: Any) -> Any:
        return jnp.where(gate > 0, numbers, SLOPE * numbers)

    @jax.jit
    def ours(x: Any, g: Any) -> Any:
        h, y = (
            gpu.convolve_and_rectify(x, weight, bias, counts, *given, slope=SLOPE, interpret=interpret)
            for given in ((), (gate,))
        )
        d_weight = gpu.rectified_weight_gradient(x, g, counts, gate, slope=SLOPE, interpret=interpret)
        return jnp.where(there, h, 0.0), jnp.where(there, y, 0.0), d_weight

    y, _, d_weight = reference(x, weight, gated(jnp.where(there, g, 0.0), gate), 1)
    y = jnp.where(there, y + bias.astype(float)[:, None, None, None, :], 0.0)
    found = ours(jnp.where(there, x, jnp.nan), jnp.where(there, g, jnp.nan))
    assert differs(found, (gated(y, y), gated(y, gate), d_weight)) < 3e-7
    summed = sum_pixels(g, gate, slope=SLOPE, interpret=interpret)
    assert differs([summed], [gated(g.astype(float), gate).sum((1, 2, 3))]) < 3e-7


@pytest.mark.parametrize("shared", [False, True])
def test_derivatives(shared: bool) -> None:
    """First and second, forward and backward, equal those of convolution, bias and leaky ReLU in turn."""
    x, weight, bias = (a.astype(float) for a in (normal(3, 4, 6, 5, 3), normal(3, 4, 27), normal(3, 4)))
    weight, bias = (weight[0], bias[0]) if shared else (weight, bias)
    again, counts = normal(4, 36).astype(float), jnp.full(3, 4, jnp.int32)

    def plain(x: Any, weight: Any, bias: Any, count: Any) -> Any:
        return leaky_relu(add_bias(convolve(x, weight, 1, count), bias))

    def found(layer: Any) -> Any:
        def loss(given: Any) -> Any:
            def of_task(x: Any, weight: Any, bias: Any, count: Any) -> Any:
                return jnp.sum(jnp.sin(layer(layer(x, weight, bias, count), given[3], bias, count)))

            own, count = (None, counts[0]) if shared else (0, counts)
            return jnp.sum(jax.vmap(of_task, (0, own, own, own))(*given[:3], count))

        given = (x, weight, bias, again)
        moved = jax.tree.map(jnp.cos, given)

        def along(given: Any) -> Any:
            return sum(jnp.vdot(a, b) for a, b in zip(jax.grad(loss)(given), moved, strict=True))

        forward = jax.jvp(jax.grad(loss), (given,), (moved,))
        twice = jax.jvp(lambda at: jax.jvp(loss, (at,), (moved,))[1], (given,), (moved,))
        return jax.tree.leaves((forward, jax.grad(along)(given), twice))

    ours, expected = (jax.jit(found, static_argnums=0)(layer) for layer in (convolve_and_rectify, plain))
    assert differs(ours, expected) < 1e-12


def test_only_the_first_layer_of_colour_pairs_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """And other networks, and other platforms, compute as without it."""

    def layers(net: Any, *shape: int) -> list[int]:
        net, x = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), net), normal(4, *shape)
        jaxpr = str(jax.make_jaxpr(jax.grad(lambda net: jnp.sum(net.for_shots(x, jnp.int32(3)))))(net))
        return [len(re.findall(f"anyshot_rectified_{name}", jaxpr)) for name in ("layer", "of_weight", "of_bias")]

    def all_layers() -> list[list[int]]:
        key = jax.random.key(0)
        return [
            layers(Siamese((8, 8, 3), key=key), 2, 8, 8, 3),
            layers(Siamese((8, 8, 1), key=key), 2, 8, 8, 1),
            layers(StackedPairs((8, 8, 3), key=key), 2, 8, 8, 3),
            layers(Conv4((8, 8, 3), key=key), 8, 8, 3),
        ]

    assert all_layers() == [[0, 0, 0]] * 4
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert all_layers() == [[1, 1, 1], *[[0, 0, 0]] * 3]


def test_kernels_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def lowered() -> str:
        def loss(weight: Any, bias: Any) -> Any:
            return jnp.sum(convolve_and_rectify(normal(2, 6, 5, 3), weight, bias, None))

        return lower_for_a_gpu(jax.grad(loss, (0, 1)), normal(4, 27), normal(4))

    assert lowered().count("xla.gpu.triton") == 3
    monkeypatch.setenv("ANYSHOT_KERNELS", "off")
    assert "triton" not in lowered()
