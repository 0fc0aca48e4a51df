"""The regret of finished runs, estimated from their folders."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from anyshot.errors import DataError, InputError, RunError
from anyshot.runs.make import make_experiment
from anyshot.runs.regret import estimate_regret
from anyshot.runs.running import run
from anyshot.runs.table import read_runs, run_table
from tests.support.small_runs import ONLINE

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]


def test_regret_is_the_loss_less_that_of_a_learner_trained_on(online_folder: Path) -> None:
    found = estimate_regret(online_folder, steps=300)
    assert found["cumulative_loss"] == pytest.approx(run_table(read_runs(online_folder))["cumulative_loss"][0])
    assert 0 < found["hindsight_loss"] < found["cumulative_loss"]
    assert found["regret"] == found["cumulative_loss"] - found["hindsight_loss"]
    assert found["steps"] == 300


@pytest.mark.slow
def test_regret_of_a_learner_that_never_learns_is_zero(tmp_path: Path) -> None:
    run(make_experiment("sinusoid", "ftml-vs", 0, ONLINE | {"learner.meta_rate": 1e-30}), tmp_path, progress=False)
    found = estimate_regret(tmp_path, steps=9)
    assert found["hindsight_loss"] == pytest.approx(found["cumulative_loss"], rel=1e-6)


def test_a_comparator_that_diverges_has_no_regret(online_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyshot.runs.regret.train_on", lambda loop, stream, state, key, rounds: state.learner)
    monkeypatch.setattr("anyshot.runs.regret.losses_in_hindsight", lambda *arguments: np.array([1.0, np.nan]))
    with pytest.raises(RunError, match=r"not finite.*fewer steps than 7"):
        estimate_regret(online_folder, steps=7)


def test_what_has_no_regret_is_refused(online_folder: Path, offline_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"steps must be .* got -1"):
        estimate_regret(online_folder, steps=-1)
    with pytest.raises(InputError, match="offline"):
        estimate_regret(offline_folder)
    shutil.copytree(online_folder, tmp_path / "run")
    shutil.rmtree(tmp_path / "run/checkpoints")
    with pytest.raises(DataError, match="no checkpoint"):
        estimate_regret(tmp_path / "run")
    (tmp_path / "run/summary.json").unlink()
    with pytest.raises(InputError, match="not finished"):
        estimate_regret(tmp_path / "run")
