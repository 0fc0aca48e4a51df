"""Tests run in float64, so that agreement with a reference can be asked for to eight digits and more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest
from hypothesis import HealthCheck, settings

from tests.support.compilation import compiling_quickly

jax.config.update("jax_enable_x64", True)
jax.config.update(
    "jax_compilation_cache_dir", os.environ.get("JAX_COMPILATION_CACHE_DIR", str(Path(".cache/jax").resolve()))
)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)

collect_ignore = ["support/faulty_node"]  # for processes of its own

# Compilation makes the first example slow; that is no fault of the code under test.
settings.register_profile("anyshot", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("anyshot")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data files: `$ANYSHOT_DATA`, else the one beside this repository's checkout."""
    folder = Path(os.environ.get("ANYSHOT_DATA") or Path(__file__).parent.parent.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("no real data: set ANYSHOT_DATA to a folder with mnist, omniglot, miniimagenet, pose_meshes")
    return folder


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all tests, so that a large task set is built once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that has no data: no `$ANYSHOT_DATA`, an empty cache."""
    monkeypatch.delenv("ANYSHOT_DATA", raising=False)
    monkeypatch.setenv("ANYSHOT_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def with_data(real_data: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that has the real data, and the cache that all tests share."""
    monkeypatch.setenv("ANYSHOT_DATA", str(real_data))
    monkeypatch.setenv("ANYSHOT_CACHE", str(shared_cache))
    return real_data


@pytest.fixture(scope="module")
def quick_compilation() -> Iterator[None]:
    """Programs that run once, for milliseconds, need no optimising; and all of them are kept for the next run."""
    with compiling_quickly():
        yield


@pytest.fixture(autouse=True, scope="module")
def free_compiled_programs() -> Iterator[None]:
    """Drop compiled programs before they are too many: each keeps memory maps, and Linux allows a process 65,530."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and len(maps.read_bytes().splitlines()) > 20_000:
        jax.clear_caches()
