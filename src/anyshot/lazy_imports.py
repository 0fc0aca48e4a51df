"""Names that are imported when first used, so that `anyshot --help` need not wait for JAX."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy_getattr(package: str, modules: dict[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """A module's `__getattr__` for the public names of its parts.

    Args:
        package: the module's `__name__`.
        modules: for each part of it, the names to be had from there.
    """
    places = {name: part for part, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name in places:
            return getattr(import_module(f"{package}.{places[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get
