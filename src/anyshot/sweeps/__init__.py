"""Many runs: a grid, a list or a search, on this machine or on a Ray cluster."""

from typing import TYPE_CHECKING

from anyshot.lazy_imports import lazy_getattr

if TYPE_CHECKING:
    from anyshot.sweeps.spec import Spec, read_spec
    from anyshot.sweeps.sweeping import Sweep, sweep

__all__ = ["Spec", "Sweep", "read_spec", "sweep"]

__getattr__ = lazy_getattr(__name__, {"spec": ("Spec", "read_spec"), "sweeping": ("Sweep", "sweep")})
