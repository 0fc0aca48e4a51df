"""Convolutions that multiply numbers rounded to float16's 11 bits."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anyshot import read_runs
from anyshot.errors import InputError
from anyshot.networks import Conv4, PoseRegressor, Siamese, StackedPairs, convolution_gpu, convolve, make_network
from anyshot.networks import convolution_halves_gpu as halves
from anyshot.networks.rectified import convolve_and_rectify
from anyshot.report import compare
from anyshot.runs.records import LearnerRecord
from tests.networks.test_kernels import NEEDS_GPU, differs, normal, reference
from tests.support.written_runs import write_run

KEY = jax.random.key(0)


def rounded(array: Any) -> Any:
    """To 11 significant bits, by NumPy: the nearest, ties to even."""
    fraction, exponent = np.frexp(np.asarray(array, float))
    return jnp.asarray(np.ldexp(np.round(fraction * 2**11), exponent - 11))


@pytest.mark.parametrize("stride", [1, 2])
def test_the_operations_multiply_what_is_rounded(stride: int) -> None:
    """Each of the three, in float64, where only the rounding of the factors is left."""
    x, weight = normal(1, 3, 7, 6, 2).astype(float), normal(1, 5, 18).astype(float)
    g = normal(1, 3, *((4, 3) if stride == 2 else (7, 6)), 5).astype(float)

    def ours(x: Any, weight: Any) -> Any:
        return convolve(x[0], weight[0], stride, precision="half")[None]

    y, backward = jax.vjp(ours, x, weight)
    assert differs((y, *backward(g)), reference(rounded(x), rounded(weight), rounded(g), stride)) < 1e-14
    assert 1e-4 < differs([y], [reference(x, weight, g, stride)[0]]) < 1e-3


@pytest.mark.parametrize("kernels", [convolution_gpu, halves])
@pytest.mark.parametrize("interpret", [True, pytest.param(False, marks=[pytest.mark.gpu, NEEDS_GPU])])
def test_kernels(kernels: Any, interpret: bool) -> None:
    """One product of what is rounded; images behind the count, here NaN, reach nothing."""
    x, weight, g = normal(2, 3, 5, 4, 32), normal(2, 32, 288), normal(2, 3, 5, 4, 32)
    count = jnp.array([3, 2], jnp.int32)
    there = (jnp.arange(3) < count[:, None])[..., None, None, None]
    stride = [1] if kernels is convolution_gpu else []
    sizes = [5, 4] if kernels is convolution_gpu else []

    @jax.jit
    def ours(x: Any, g: Any) -> Any:
        y = kernels.convolve([(x, weight)], count, *stride, True, interpret=interpret)
        d_x = kernels.convolve_input_gradient([(g, weight)], count, *stride, *sizes, True, interpret=interpret)
        return y, d_x, kernels.convolve_weight_gradient([(x, g)], count, *stride, True, interpret=interpret)

    found = ours(jnp.where(there, x, jnp.nan), jnp.where(there, g, jnp.nan))
    y, d_x, d_weight = reference(rounded(x), rounded(weight), rounded(jnp.where(there, g, 0.0)), 1)
    images = [jnp.where(there, array, 0.0) for array in (found[0], found[1])]
    assert differs((*images, found[2]), (jnp.where(there, y, 0.0), d_x, d_weight)) < 1e-6


def test_all_derivatives_are_in_half() -> None:
    def layer(x: Any, weight: Any, bias: Any) -> Any:
        return convolve(convolve_and_rectify(x, weight, bias, None, "half"), weight, 2, precision="half")

    def products(precision: str) -> int:
        def loss(weight: Any) -> Any:
            return jnp.sum(jnp.sin(layer(normal(2, 6, 5, 4), weight, jnp.ones(4))))

        weight = normal(4, 36)
        jaxpr = str(jax.make_jaxpr(lambda w: jax.jvp(jax.grad(loss), (w,), (w,)))(weight))
        return len(re.findall(f"half={precision}", jaxpr))

    assert products("True") > 8
    assert products("False") == 0


NETWORKS: dict[str, tuple[Callable[[str], Any], tuple[int, ...]]] = {
    "conv4": (lambda precision: Conv4((8, 7, 3), 3, 4, 2, precision, key=KEY), (8, 7, 3)),
    "pose": (lambda precision: PoseRegressor((16, 9), 3, 4, 2, precision, key=KEY), (16, 9)),
    "siamese": (lambda precision: Siamese((8, 8, 3), 3, 4, precision, key=KEY), (2, 8, 8, 3)),
    "stacked": (lambda precision: StackedPairs((8, 8, 3), 3, 4, precision, key=KEY), (2, 8, 8, 3)),
}


@pytest.mark.parametrize("kind", NETWORKS)
def test_networks_have_it_as_a_setting(kind: str) -> None:
    make, shape = NETWORKS[kind]
    settings = {"kind": kind, "channels": 4, "precision": "half"}
    model = make_network(settings, shape)(KEY, 3)
    x = normal(*shape)
    assert jnp.array_equal(model(x), make("half")(x))
    assert 1e-6 < differs([model(x)], [make("float32")(x)]) < 0.05
    with pytest.raises(InputError, match=r"precision.*float32, half.*'tf32'"):
        make_network(settings | {"precision": "tf32"}, shape)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_images_of_other_types(dtype: str) -> None:
    """As for float32: small weights do not become zero, and what has 11 bits is not changed."""
    x, weight = jnp.asarray(np.arange(32).reshape(1, 4, 4, 2), dtype), 2.0**-16 * jnp.ones((3, 18), jnp.float32)

    def sums(precision: str) -> Any:
        return jax.value_and_grad(lambda w: jnp.sum(convolve(x, w, precision=precision)).astype(float))(weight)

    (half, of_half), (full, of_full) = sums("half"), sums("float32")
    assert half == full > 0
    assert jnp.array_equal(of_half, of_full)
    assert of_half.any()


def test_nothing_is_lost_of_not_a_number() -> None:
    """CUDA's own has all bits set, so that rounding it by its bits would overflow."""
    every = np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x7FC00000, 0x7F800001], np.uint32).view(np.float32)
    weight = jnp.resize(jnp.asarray(every), (1, 32, 288))
    count = jnp.ones(1, jnp.int32)
    found = convolution_gpu.convolve(
        [(jnp.ones((1, 1, 4, 4, 32), jnp.float32), weight)], count, 2, True, interpret=True
    )
    assert jnp.isnan(found).all()


def test_records_without_the_setting_are_of_float32() -> None:
    def record(network: dict[str, Any]) -> LearnerRecord:
        return LearnerRecord(name="ftml", type={"name": "x"}, network=network)

    older = {"kind": "conv4", "channels": 8, "stride": 2}
    described = make_network(older, (28, 28, 3)).describe()
    assert record(older) == record(described)
    assert record(older) != record(described | {"precision": "half"})
    own = older | {"sha256": "0" * 64}  # of a network of the user's own that is called so
    assert record(own).network == own


def test_runs_in_half_are_of_another_method(tmp_path: Path) -> None:
    """Also beside a run from before there was the setting, and for the same seed."""

    def with_network(**changes: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
        return lambda record: record | {"learner": record["learner"] | {"network": {"kind": "conv4", **changes}}}

    write_run(tmp_path / "older", "ftml", 0, change_record=with_network(channels=4, stride=2))
    write_run(tmp_path / "half", "ftml", 0, change_record=with_network(channels=4, stride=2, precision="half"))
    write_run(tmp_path / "full", "ftml", 1, change_record=with_network(channels=4, stride=2, precision="float32"))
    (found,) = compare(tmp_path)
    assert set(found.methods) == {"ftml (precision float32)", "ftml (precision half)"}
    assert set(read_runs(tmp_path)["network.precision"]) == {"float32", "half"}
