"""Where to compute, decided before JAX computes anything."""

from __future__ import annotations

import os
from pathlib import Path

from anyshot.errors import InputError
from anyshot.runs.interrupts import delay_interrupts


def use_device(device: str, batching: str) -> None:
    """Start JAX on a device.

    Args:
        device: auto, cpu or gpu.
        batching: of the learner. On a CPU every core becomes a device, unless the tasks of a meta-batch are computed
            together.
    """
    with delay_interrupts():
        import jax

        from anyshot.devices import use_cpu_cores

    if device != "auto":
        jax.config.update("jax_platforms", {"cpu": "cpu", "gpu": "cuda"}[device])
    on_cpu = device == "cpu" or (device == "auto" and not _has_gpu())
    if on_cpu and batching != "together":
        use_cpu_cores()
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
