"""Settings of JAX that suit small networks: all cores of a CPU, concurrent kernels on a GPU."""

from __future__ import annotations

import os
from typing import Any

import equinox as eqx
import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from anyshot.errors import InputError


def use_cpu_cores(cores: int | None = None) -> int:
    """Make every CPU core a JAX device of its own, so that the tasks of a meta-gradient are shared out among them.

    XLA hardly uses a second core for arrays this small; one task per core at a time does. This is a setting of the
    whole process and must come before its first JAX computation.

    Args:
        cores: how many; by default as many as this process may run on.

    Returns:
        The number of CPU devices JAX now has.
    """
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = available if cores is None else cores
    if type(wanted) is not int or wanted < 1:
        raise InputError(f"cores must be a whole number of at least 1, got {wanted!r}")
    try:
        jax.config.update("jax_num_cpu_devices", wanted)
    except RuntimeError as error:
        raise InputError(
            f"use_cpu_cores({wanted}) came after JAX had started; call it before the first JAX computation"
        ) from error
    return wanted


def compiler_options() -> dict[str, str]:
    """Options for `jax.jit(..., compiler_options=...)` on the default device.

    The kernels of a meta-gradient are too small to fill a GPU, so those that do not wait for each other should run side
    by side: on an H200 that takes a meta-gradient from 3.0 to 2.3 ms, with the same bits as result. And XLA must not
    try out algorithms: which one wins differs from process to process, and with it the last bits of the result, so that
    a run could not be resumed exactly; our own kernels do the work, and it costs no time. On a CPU: none.

    >>> import jax.numpy as jnp
    >>> print(jax.jit(jnp.sum, compiler_options=compiler_options())(jnp.ones(3)))
    3.0
    """
    if jax.default_backend() != "gpu":
        return {}
    return {"xla_gpu_command_buffer_scheduling_mode": "CONCURRENT", "xla_gpu_autotune_level": "0"}


def replicate(tree: PyTree[Any]) -> PyTree[Any]:
    """Copy the arrays to every CPU device, if there are several; else return them as they are.

    What a compiled function with `batching="in turn"` returns lies on all of them. If its arguments do so from the
    start, it need not be compiled a second time.
    """
    devices = jax.local_devices(backend="cpu") if jax.default_backend() == "cpu" else []
    if len(devices) < 2:
        return tree
    mesh = jax.make_mesh((len(devices),), ("tasks",), axis_types=(AxisType.Auto,), devices=devices)
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.device_put(arrays, NamedSharding(mesh, PartitionSpec())), rest)
