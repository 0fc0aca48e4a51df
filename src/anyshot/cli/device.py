"""Where to compute, decided before JAX computes anything."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from anyshot.cli.hosts import join_hosts
from anyshot.cli.options import Devices, Hosts
from anyshot.errors import InputError
from anyshot.runs.interrupts import delay_interrupts


def use_device(
    device: str,
    batching: str,
    devices: Devices = None,
    hosts: Hosts = None,
    before: int | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Start JAX on a device.

    Args:
        device: auto, cpu or gpu.
        batching: of the learner. On a CPU every core becomes a device, unless the tasks of a meta-batch are computed
            together.
        devices: that share the tasks of a meta-batch, on all hosts: a number, auto for all, None for the usual number.
        hosts: that compute together; None for this one alone.
        before: the number of devices that the run was on until now.
        say: called with a line while other hosts are waited for.
    """
    if devices not in (None, "auto") and (not isinstance(devices, int) or devices < 1):
        raise InputError(f"--devices must be a whole number of at least 1 or auto, got {devices}")
    with delay_interrupts():
        import jax

        from anyshot.devices import use_cpu_cores

    if device != "auto":
        jax.config.update("jax_platforms", {"cpu": "cpu", "gpu": "cuda"}[device])
    on_cpu = device == "cpu" or (device == "auto" and not _has_gpu())
    wanted = before if devices is None else devices
    if on_cpu and isinstance(wanted, int):
        count = hosts[1] if isinstance(hosts, tuple) else 1
        if count > 0 and wanted % count:
            raise InputError(
                f"--devices is {wanted}, which {count} hosts cannot share evenly; use a multiple of {count}"
            )
        use_cpu_cores(max(1, wanted // max(1, count)))
    elif on_cpu and (devices == "auto" or batching != "together"):
        use_cpu_cores()
    if hosts is not None:
        join_hosts(hosts, say)
    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:  # AssertionError if the platform is not installed
        why = str(error).splitlines()[0] if str(error) else "none is installed"
        asked = f"JAX_PLATFORMS is {os.environ.get('JAX_PLATFORMS')!r}" if device == "auto" else f"--device is {device}"
        raise InputError(
            f"{asked}, but JAX cannot start there ({why}); use --device cpu, or for an NVIDIA GPU: "
            "pip install 'anyshot[cuda]'"
        ) from error


def _has_gpu() -> bool:
    """Whether there is an NVIDIA GPU that JAX could use. JAX is not started."""
    from importlib.util import find_spec

    return Path("/proc/driver/nvidia/version").exists() and any(
        find_spec(name) for name in ("jax_cuda13_plugin", "jax_cuda12_plugin")
    )
