"""Finished runs that several files read; each process makes them once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jax
import pytest

from anyshot.runs.running import run
from tests.support.small_runs import small_offline, small_online


@contextmanager
def compiling_quickly() -> Iterator[None]:
    """As the fixture `quick_compilation`, whose modules must find here what they would compute themselves."""
    options = {"jax_disable_most_optimizations": True, "jax_persistent_cache_min_compile_time_secs": 0.0}
    before = {name: jax.config.values[name] for name in options}
    for name, value in options.items():
        jax.config.update(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)


@pytest.fixture(scope="session")
def family(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two learners with two seeds online, and an offline run, in one folder. Read it, or copy it."""
    folder = tmp_path_factory.mktemp("family")
    with compiling_quickly():
        for learner in ("ftml-vs", "toe"):
            for seed in (0, 1):
                run(small_online(learner, seed), folder / f"{learner}-{seed}", progress=False)
        run(small_offline(), folder / "maml-vs-0", progress=False)
    return folder


@pytest.fixture(scope="session")
def online_folder(family: Path) -> Path:
    """Of `small_online()`."""
    return family / "ftml-vs-0"


@pytest.fixture(scope="session")
def offline_folder(family: Path) -> Path:
    """Of `small_offline()`."""
    return family / "maml-vs-0"
