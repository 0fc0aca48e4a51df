"""The devices that compute: how many share the tasks of a meta-batch, and settings of JAX that suit small networks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import equinox as eqx
import jax
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from anyshot.errors import InputError

TASKS = "tasks"  # the axis of the mesh


def use_cpu_cores(cores: int | None = None) -> int:
    """Make every CPU core a JAX device of its own, so that the tasks of a meta-gradient are shared out among them.

    XLA hardly uses a second core for arrays this small; one task per core at a time does. This is a setting of the
    whole process and must come before its first JAX computation.

    Args:
        cores: how many; by default as many as this process may run on. More devices than cores are possible, too.

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


@contextmanager
def share_tasks(devices: int | Literal["auto"] | None) -> Iterator[int]:
    """Inside, so many devices share the tasks of each meta-batch. All else is computed on each of them.

    Args:
        devices: how many; "auto" takes all, on all hosts that `jax.distributed` has joined. None changes nothing: all
            CPU devices, or one GPU.

    >>> with share_tasks(1) as count:
    ...     print(count)
    1
    """
    if devices is None and jax.process_count() == 1:
        yield count_sharing_devices()
        return
    there = jax.devices()
    wanted = len(there) if devices in ("auto", None) else devices
    if type(wanted) is not int or wanted < 1:
        raise InputError(f"devices must be a whole number of at least 1 or 'auto', got {devices!r}")
    if wanted > len(there):
        more = "; anyshot.use_cpu_cores makes more of a CPU" if jax.default_backend() == "cpu" else ""
        raise InputError(f"devices is {wanted}, but JAX has {len(there)} ({there[0].device_kind}){more}")
    if jax.process_count() > 1 and wanted < len(there):
        raise InputError(f"devices is {wanted}, but the hosts have {len(there)} together, and all must take part")
    with jax.set_mesh(_make_mesh(there[:wanted])):
        yield wanted


def task_mesh() -> Mesh | AbstractMesh | None:
    """The devices that share the tasks of a meta-batch; None if there is only one."""
    chosen = jax.sharding.get_abstract_mesh()
    if TASKS in chosen.axis_names:
        return chosen if chosen.size > 1 else None
    devices = jax.local_devices(backend="cpu") if jax.default_backend() == "cpu" else []
    return _make_mesh(devices) if len(devices) > 1 else None


def count_sharing_devices() -> int:
    """The number of devices that share the tasks of a meta-batch."""
    mesh = task_mesh()
    return 1 if mesh is None else mesh.size


def replicate(tree: PyTree[Any]) -> PyTree[Any]:
    """Copy the arrays to every device that shares tasks, if there are several; else return them as they are.

    What a compiled function returns that shares tasks lies on all of them. If its arguments do so from the start, it
    need not be compiled a second time.
    """
    sharding = on_sharing_devices()
    if sharding is None:
        return tree
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.device_put(arrays, sharding), rest)


def on_sharing_devices() -> NamedSharding | None:
    """The sharding of arrays of which every device that shares tasks has a copy; None if there is only one."""
    mesh = task_mesh()
    if mesh is None:
        return None
    return NamedSharding(mesh if isinstance(mesh, Mesh) else jax.sharding.get_mesh(), PartitionSpec())


def _make_mesh(devices: list[Any]) -> Mesh:
    return jax.make_mesh((len(devices),), (TASKS,), axis_types=(AxisType.Auto,), devices=devices)
