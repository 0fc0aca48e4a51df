"""Finished runs that several files read; each process makes them once."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyshot.runs.running import run
from tests.support.compilation import compiling_quickly
from tests.support.small_runs import small_offline, small_online


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
