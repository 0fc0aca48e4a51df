"""Tests run in float64, so that agreement with a reference can be asked for to eight digits and more."""

from __future__ import annotations

import os
from pathlib import Path

import jax
from hypothesis import HealthCheck, settings

jax.config.update("jax_enable_x64", True)
jax.config.update(
    "jax_compilation_cache_dir", os.environ.get("JAX_COMPILATION_CACHE_DIR", str(Path(".cache/jax").resolve()))
)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)

# Compilation makes the first example slow; that is no fault of the code under test.
settings.register_profile("anyshot", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("anyshot")
