"""Compiling quickly: programs that run once, for milliseconds, need no optimising."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax


@contextmanager
def compiling_quickly() -> Iterator[None]:
    """Without most optimisations, and with every program kept for the next run of the tests."""
    options = {"jax_disable_most_optimizations": True, "jax_persistent_cache_min_compile_time_secs": 0.0}
    before = {name: jax.config.values[name] for name in options}
    for name, value in options.items():
        jax.config.update(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
