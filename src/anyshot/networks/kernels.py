"""Whether a program may use our GPU kernels: where the installed JAX and the card have what they need.

Elsewhere, and with the environment variable `ANYSHOT_KERNELS=off`, XLA computes the same: slower, and on any device.
This is asked when a program is lowered, so the variable has to be set before the first computation.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
from types import ModuleType

import jax

from anyshot.errors import InputError

SWITCH = "ANYSHOT_KERNELS"
OLDEST_CARD = 8.0  # compute capability: the first with TF32


def find_kernels(name: str) -> ModuleType | None:
    """The module `anyshot.networks.NAME` of kernels, or None where XLA has to do; the reason is logged once."""
    switch = os.environ.get(SWITCH, "on")
    if switch not in ("on", "off"):
        raise InputError(f"{SWITCH} must be on or off, got {switch!r}")
    if switch == "off":
        _log_once(f"{SWITCH} is off")
        return None
    return _load(name)


@functools.cache
def _load(name: str) -> ModuleType | None:
    too_old = [d for d in _cards() if float(d.compute_capability) < OLDEST_CARD]
    if too_old:
        _log_once(f"compute capability {too_old[0].compute_capability} is below {OLDEST_CARD}")
        return None
    try:
        return importlib.import_module(f"anyshot.networks.{name}")
    except (ImportError, AttributeError) as error:  # Pallas's Triton part is deprecated and moves between versions
        _log_once(f"JAX {jax.__version__} has not what they are written in ({error})")
        return None


def _cards() -> list[jax.Device]:
    try:
        return jax.local_devices(backend="cuda")
    except RuntimeError:  # lowered here for a GPU elsewhere
        return []


@functools.cache
def _log_once(reason: str) -> None:
    logging.getLogger(__name__).warning("anyshot's GPU kernels are not used, XLA computes instead: %s", reason)
