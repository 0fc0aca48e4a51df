"""Time one kernel in each language that JAX can call on a GPU, and what it costs to launch small kernels of each.

    python -m benchmarks.kernel_backends

Ways: Pallas on Triton (what anyshot uses), Triton's own language through `jax_triton`, Pallas on Mosaic GPU, plain XLA.
The kernel is the 3x3 convolution of `convolution_halves_gpu` for one task: three products of float16 halves, which all
but XLA's are given. The small kernels are a chain of y = 1.0001 x, which CUDA graphs (XLA's command buffers) may hold.
A way that cannot run says why, and the others go on. Mosaic's convolution comes last: a wrong one could stop the GPU.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import inspect
import itertools
import os
import re
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from anyshot import compiler_options
from anyshot.networks import convolution_halves_gpu as halves
from anyshot.networks import convolution_xla, patches

LENGTH, NUMBERS, BLOCK = 30, 25 * 980 * 32, 1024  # kernels in the chain, the size of each, and of a program


class Way(NamedTuple):
    """A small kernel, a convolution, what their source lines are counted of, and a context to compile in."""

    times: Callable[..., Any] | None
    convolve: Callable[..., Any] | None
    sources: tuple[Any, ...] = ()
    context: Callable[[], Any] = nullcontext


# The ways. Each imports its packages when it is asked for, so that one that is missing stops no other.


def pallas_triton() -> Way:
    from jax.experimental.pallas import triton

    from anyshot.networks.tiles_gpu import launched, tile

    def times(x: Any) -> Any:
        def kernel(x_ref: Any, y_ref: Any) -> None:
            place = tile(0, BLOCK)
            exists = place < x.size
            triton.store(y_ref.at[place], 1.0001 * triton.load(x_ref.at[place], mask=exists, other=0.0), mask=exists)

        return launched(kernel, x.shape, (pl.cdiv(x.size, BLOCK),), 4, interpret=False)(x)

    def convolve(x: Any, weight: Any, scale: Any, count: Any) -> Any:
        return halves._convolve([(x, weight)], count, half=False, interpret=False)

    return Way(times, convolve, (halves._convolve, halves._pixels, halves._multiply_add, launched))


def jax_triton() -> Way:
    from benchmarks import kernels_triton as own

    return Way(own.times_triton, own.convolve_triton, (own.triton_convolution, own.convolve_triton))


def jax_triton_by_ffi() -> Way:
    from benchmarks import kernels_triton as own

    return Way(own.times_triton, None, context=own.through_ffi)


def pallas_mosaic() -> Way:
    from jax.experimental.pallas import mosaic_gpu

    from benchmarks.mosaic import convolution, tiles

    def times(x: Any) -> Any:
        def kernel(x_ref: Any, y_ref: Any) -> None:
            place = pl.ds(lax.axis_index("block") * 896, 896)  # all blocks must be full
            y_ref[place] = 1.0001 * x_ref[place]

        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return mosaic_gpu.kernel(kernel, out_type=shape, grid=(x.size // 896,), grid_names=("block",))(x)

    def convolve(x: Any, weight: Any, scale: Any, count: Any) -> Any:
        return convolution.convolve_halves(x, weight, count)

    return Way(times, convolve, (convolution.convolve_halves, tiles))


def xla() -> Way:
    def times(x: Any) -> Any:
        return lax.optimization_barrier(1.0001 * x)

    def convolve(x: Any, weight: Any) -> Any:
        return convolution_xla.convolve(x, weight, jnp.full(1, x.shape[1], jnp.int32), stride=1, half=False)

    return Way(times, convolve, (convolution_xla.convolve, convolution_xla.convolve_by_patches, patches.unfold))


def xla_convolution() -> Way:
    def convolve(x: Any, weight: Any) -> Any:
        kernel, layout = weight[0].reshape(-1, 3, 3, x.shape[-1]), ("NHWC", "OHWI", "NHWC")
        return lax.conv_general_dilated(
            x[0], kernel, (1, 1), "SAME", dimension_numbers=layout, precision=lax.Precision.HIGHEST
        )[None]

    return Way(None, convolve, (convolve,))


# What is compared.


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernel_backends", description=__doc__)
    for name, default in (("images", 40), ("size", 84), ("channels", 64)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        dump = f"--xla_dump_to={folder} --xla_dump_hlo_as_text --xla_dump_hlo_module_re=.*chain_.*"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {dump}"  # before JAX's first computation
        if jax.default_backend() != "gpu":
            parser.exit(1, "error: the kernels need an NVIDIA GPU\n")
        packages = ", ".join(f"{name} {version(name)}" for name in ("jax", "triton", "jax-triton"))
        print(f"{jax.devices()[0].device_kind}, {packages}", flush=True)
        compare_chains(Path(folder))
    compare_convolutions(asked.images, asked.size, asked.channels)


def compare_chains(folder: Path) -> None:
    print(f"{LENGTH} kernels of {NUMBERS} numbers, each waiting for the one before")
    print(f"{'way':20}{'us a kernel':>12}{'in CUDA graphs':>16}{'apart':>10}", flush=True)
    x = jax.random.normal(jax.random.key(0), (NUMBERS,))
    expected = np.asarray(x, np.float64) * 1.0001**LENGTH
    for name in (xla, pallas_triton, jax_triton, jax_triton_by_ffi, pallas_mosaic):
        try:
            way = name()
            with way.context():
                apart, seconds = measure(chain(name.__name__, way.times), expected, x)
        except Exception as error:
            print(f"{name.__name__:20}{reason(error)}", flush=True)
        else:
            where = held(folder, name.__name__)
            print(f"{name.__name__:20}{1e6 * seconds / LENGTH:12.2f}{where:>16}{apart:10.1e}", flush=True)


def chain(name: str, times: Any) -> Callable[..., Any]:
    def repeated(x: Any) -> Any:
        for _ in range(LENGTH):
            x = times(x)
        return x

    repeated.__name__ = f"chain_{name}_end"  # XLA names its dumped files after it
    return repeated


def held(folder: Path, name: str) -> str:
    """How many of a program's kernels are in command buffers, by what XLA wrote last about its thunks."""
    found = sorted(folder.glob(f"*chain_{name}_end*thunk_sequence*.txt"))
    text = found[-1].read_text() if found else ""
    kernels = re.findall(r"^( *)\d+: k(?:Kernel|CustomKernel|CustomCall)\b", text, re.MULTILINE)
    return f"{sum(map(bool, kernels))} of {len(kernels)}"


def compare_convolutions(images: int, size: int, channels: int) -> None:
    keys = jax.random.split(jax.random.key(1))
    x = jax.random.normal(keys[0], (1, images, size, size, channels))
    weight = jax.random.normal(keys[1], (1, channels, 9 * channels)) / (9 * channels) ** 0.5
    expected, operations = reference(x, weight), 2 * x.size * 9 * channels
    split = jax.jit(halves.split)(x), jax.jit(halves.split)(weight)
    given = (*split, halves.unit(split[0].largest) * halves.unit(split[1].largest), jnp.full(1, images, jnp.int32))
    print(f"convolution of {images} images of {size}x{size}x{channels}, {channels} outputs; halves are given")
    print(f"{'way':20}{'us':>10}{'TFLOP/s':>10}{'apart':>10}{'lines':>8}", flush=True)
    for name in (pallas_triton, jax_triton, xla, xla_convolution, pallas_mosaic):
        try:
            way = name()
            arrays = (x, weight) if name in (xla, xla_convolution) else given
            apart, seconds = measure(way.convolve, expected, *arrays)
        except Exception as error:
            print(f"{name.__name__:20}{reason(error)}", flush=True)
        else:
            numbers = f"{1e6 * seconds:10.1f}{operations / seconds / 1e12:10.1f}{apart:10.1e}"
            print(f"{name.__name__:20}{numbers}{lines(*way.sources):8}", flush=True)


def measure(function: Any, expected: Any, *arrays: Any, repeats: int = 20) -> tuple[float, float]:
    """How far a function is from what is expected, and the least seconds it takes."""
    program, best = jax.jit(function, compiler_options=compiler_options()), float("inf")
    apart = float(np.linalg.norm(np.asarray(program(*arrays), np.float64) - expected) / np.linalg.norm(expected))
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(repeats):
            last = program(*arrays)
        jax.block_until_ready(last)
        best = min(best, (time.perf_counter() - start) / repeats)
    return apart, best


def reference(x: Any, weight: Any) -> Any:
    """The convolution in float64, by NumPy."""
    (_, images, height, width, channels), outputs = x.shape, weight.shape[1]
    around = np.pad(np.asarray(x[0], np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    taps = np.asarray(weight[0], np.float64).reshape(outputs, 3, 3, channels)
    found = np.zeros((1, images, height, width, outputs))
    for n, (i, j) in itertools.product(range(images), np.ndindex(3, 3)):
        found[0, n] += around[n, i : i + height, j : j + width] @ taps[:, i, j].T
    return found


def lines(*functions: Any) -> int:
    """How many lines of source there are, without empty ones and comments."""
    texts = [inspect.getsource(getattr(function, "fn", function)) for function in functions]
    return len([line for text in texts for line in text.splitlines() if line.strip() and line.strip()[0] != "#"])


def version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "without metadata"


def reason(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).splitlines()[:3])[:300]}"


if __name__ == "__main__":
    main()
