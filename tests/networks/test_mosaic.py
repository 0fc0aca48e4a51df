"""The kernels of `benchmarks.mosaic`, interpreted on a CPU and on a GPU."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from tests.networks.test_kernels import NEEDS_GPU, differs, normal, reference
from tests.networks.test_precision import rounded

OLDEST = (0, 11, 2)  # JAX's interpreter knows copies that end outside an array since then
mosaic: Any = importlib.import_module("benchmarks.mosaic") if jax.__version_info__ >= OLDEST else None
pytestmark = pytest.mark.skipif(mosaic is None, reason=f"JAX {jax.__version__} does not interpret Mosaic kernels")


def interpreter() -> Any:
    from jax._src.pallas.mosaic_gpu.interpret.params import InterpretGPUParams

    return InterpretGPUParams()


@pytest.mark.medium
@pytest.mark.parametrize(("channels", "half"), [(64, False), (32, False), (32, True)])
@pytest.mark.parametrize("interpret", [True, pytest.param(False, marks=[pytest.mark.gpu, NEEDS_GPU])])
def test_operations(channels: int, half: bool, interpret: bool) -> None:
    """The sum over two pairs, each array and task with its own scale; images behind the count, here NaN, reach nothing.

    Images end within a tile, or with it. Tasks have all, some and none of them.
    """
    counts, height, width = jnp.array([2, 1, 0], jnp.int32), 9, 8
    there = (jnp.arange(2) < counts[:, None])[..., None, None, None]
    scales = jnp.array([1e-15, 1e10, 1.0], jnp.float32)

    def sized(*shape: int) -> Any:
        return normal(*shape) * scales.reshape(-1, *[1] * (len(shape) - 1))

    x, g = (sized(3, 2, height, width, channels)[:, ::step] for step in (1, -1))
    weight = sized(3, channels, 9 * channels)
    given = [(x, weight, g), (x[:, ::-1] * 8, weight[:, ::-1] / 8, g[..., ::-1] * 2)]
    options: Any = {"interpret": interpreter(), "cores": 3} if interpret else {}

    def shown(images: Any) -> Any:
        return jnp.where(there, images, jnp.nan)

    found = (
        mosaic.convolve([(shown(x), weight) for x, weight, _ in given], counts, half, **options),
        mosaic.convolve_input_gradient([(shown(g), weight) for _, weight, g in given], counts, half, **options),
        mosaic.convolve_weight_gradient([(shown(x), shown(g)) for x, _, g in given], counts, half, **options),
    )
    assert not jnp.where(there, 0.0, found[0]).any()  # zero, not what the memory held
    assert not jnp.where(there, 0.0, found[1]).any()
    factors = [[rounded(array) if half else array for array in arrays] for arrays in given]
    of_pairs = [reference(jnp.where(there, x, 0.0), w, jnp.where(there, g, 0.0), 1) for x, w, g in factors]
    y, d_x, d_weight = (first + second for first, second in zip(*of_pairs, strict=True))
    for task in range(2):  # each by its own size
        images = jnp.where(there, found[0], 0.0)[task], jnp.where(there, found[1], 0.0)[task]
        expected = jnp.where(there, y, 0.0)[task], jnp.where(there, d_x, 0.0)[task], d_weight[task]
        assert differs((*images, found[2][task]), expected) < 1e-6
    assert not found[2][2].any()


@pytest.mark.medium
@pytest.mark.parametrize("channels", [64, 32])
def test_lowers_for_a_gpu_elsewhere(channels: int) -> None:
    """What copies and products need of shapes and layouts is checked then, for a GPU that is not here, too."""
    x, weight = jnp.zeros((4, 2, 84, 84, channels), jnp.float32), jnp.zeros((4, channels, 9 * channels), jnp.float32)
    count = jnp.full(4, 2, jnp.int32)
    with jax.enable_x64(False):
        for operation, pair in (("convolve", (x, weight)), ("convolve_weight_gradient", (x, x))):
            of_pairs = functools.partial(getattr(mosaic, operation), [pair, pair])
            assert "mosaic_gpu" in jax.jit(of_pairs).trace(count).lower(lowering_platforms=("cuda",)).as_text()
