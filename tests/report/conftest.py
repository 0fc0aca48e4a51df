"""Runs that several tests of the report share."""

from __future__ import annotations

from pathlib import Path

import pytest

import anyshot
from tests.support.compilation import compiling_quickly
from tests.support.small_runs import small_offline, small_online
from tests.support.written_runs import Events, write_run

Written = tuple[Path, dict[tuple[str, int], Events]]


@pytest.fixture(scope="session")
def online_runs(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Three online learners with three seeds each: the folder, and the events of each run."""
    folder = tmp_path_factory.mktemp("online")
    runs = [(learner, seed) for learner in ("toe", "ftml", "ftml-vs") for seed in (0, 1, 2)]
    return folder, {(learner, seed): write_run(folder / f"{learner}-{seed}", learner, seed) for learner, seed in runs}


@pytest.fixture(scope="session")
def offline_runs(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Three offline learners with three seeds each."""
    folder = tmp_path_factory.mktemp("offline")
    runs = [(learner, seed) for learner in ("mann", "maml-vs", "maml") for seed in (0, 1, 2)]
    return folder, {
        (learner, seed): write_run(folder / f"{learner}-{seed}", learner, seed, "rainbow-digits-offline")
        for learner, seed in runs
    }


@pytest.fixture(scope="session")
def real_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real runs, online and offline, small ones."""
    folder = tmp_path_factory.mktemp("real")
    with compiling_quickly():
        for seed in (0, 1):
            anyshot.run(small_online("ftml-vs", seed), folder / f"ftml-vs-{seed}", progress=False)
            anyshot.run(small_offline("maml-vs", seed), folder / f"maml-vs-{seed}", progress=False)
        anyshot.run(small_online("toe", 0), folder / "toe-0", progress=False)
    return folder
