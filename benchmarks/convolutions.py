"""Time the three operations of a 3x3 convolution on a GPU, in each way that anyshot has, and how far apart they are.

    python -m benchmarks.convolutions --tasks 1 --images 40 --size 84 --channels 64

Ways: `halves` (three float16 products), `half` (one, as with network.precision=half), `tf32` (three TF32 products), all
in Pallas on Triton; `mosaic` and `mosaic-half`, the first two in Pallas on Mosaic GPU; `xla` (patches in memory).
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from anyshot import compiler_options
from anyshot.networks import convolution_gpu, convolution_halves_gpu, convolution_xla
from benchmarks import mosaic
from benchmarks.kernel_backends import reason


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.convolutions", description=__doc__)
    for name, default in (("tasks", 1), ("images", 40), ("size", 84), ("channels", 64)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    if jax.default_backend() != "gpu":
        parser.exit(1, "error: the kernels need an NVIDIA GPU\n")
    tasks, images, size, channels = asked.tasks, asked.images, asked.size, asked.channels
    keys = jax.random.split(jax.random.key(0), 3)
    x, g = (jax.random.normal(key, (tasks, images, size, size, channels)) for key in keys[:2])
    weight = jax.random.normal(keys[2], (tasks, channels, 9 * channels)) / (9 * channels) ** 0.5
    count = jnp.full(tasks, images, jnp.int32)
    operations = 2 * x.size * 9 * channels
    print(f"{jax.devices()[0].device_kind}, JAX {jax.__version__}: {tasks} x {images} of {size}x{size}x{channels}")
    print(f"{'operation':32}{'way':12}{'us':>8}{'TFLOP/s':>10}{'from xla by':>14}")
    operations_of: tuple[tuple[str, tuple[Any, ...], dict[str, int]], ...] = (
        ("convolve", (x, weight), {}),
        ("convolve_input_gradient", (g, weight), {"height": size, "width": size}),
        ("convolve_weight_gradient", (x, g), {}),
    )
    expected: dict[str, Any] = {}
    runs = [
        (way, function, name, arrays)
        for name, arrays, sizes in operations_of
        for way, function in ways(name, sizes).items()
    ]
    runs.sort(key=lambda run: run[0].startswith("mosaic"))  # they come last: one that is wrong could stop the GPU
    for way, function, name, arrays in runs:
        try:
            found, seconds = timed(function, *arrays, count)
        except Exception as error:  # Mosaic needs Hopper, for one
            print(f"{name:32}{way:12} {reason(error)}", flush=True)
            continue
        first = expected.setdefault(name, found)
        apart = float(jnp.linalg.norm(found - first) / jnp.linalg.norm(first))
        print(f"{name:32}{way:12}{1e6 * seconds:8.0f}{operations / seconds / 1e12:10.1f}{apart:14.1e}", flush=True)


def ways(name: str, sizes: dict[str, int]) -> dict[str, Callable[..., Any]]:
    return {
        "xla": functools.partial(getattr(convolution_xla, name), stride=1, half=False, **sizes),
        "tf32": functools.partial(without_halves, getattr(convolution_gpu, name), stride=1, **sizes),
        "halves": lambda a, b, count: getattr(convolution_halves_gpu, name)([(a, b)], count),
        "half": lambda a, b, count: getattr(convolution_halves_gpu, name)([(a, b)], count, True),
        "mosaic": lambda a, b, count: getattr(mosaic, name)([(a, b)], count),
        "mosaic-half": lambda a, b, count: getattr(mosaic, name)([(a, b)], count, True),
    }


def without_halves(kernel: Callable[..., Any], a: Any, b: Any, count: Any, **sizes: int) -> Any:
    fits, convolution_halves_gpu.fits = convolution_halves_gpu.fits, lambda *_: False
    try:
        return kernel([(a, b)], count, **sizes)
    finally:
        convolution_halves_gpu.fits = fits


def timed(function: Callable[..., Any], *arrays: Any, repeats: int = 10) -> tuple[Any, float]:
    program = jax.jit(function, compiler_options=compiler_options())
    found, best = jax.block_until_ready(program(*arrays)), float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(repeats):
            last = program(*arrays)
        jax.block_until_ready(last)
        best = min(best, (time.perf_counter() - start) / repeats)
    return found, best


if __name__ == "__main__":
    main()
