"""`anyshot run --dry-run`: all settings, an estimate, and nothing written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from anyshot.runs.estimate import CPU, GPU, estimate
from anyshot.runs.make import make_experiment
from anyshot.runs.presets import preset
from anyshot.runs.settings import list_settings
from tests.support.command_line import Anyshot, list_files

pytestmark = pytest.mark.medium


@pytest.mark.parametrize(("name", "steps"), [("sinusoid", 10_000), ("sinusoid-offline", 5_000)])
def test_it_prints_every_setting_and_an_estimate(name: str, steps: int, here: Path, anyshot_here: Anyshot) -> None:
    code, printed, error = anyshot_here("run", name, "--out", "new", "--dry-run")
    assert (code, error) == (0, "")
    found = preset(name)
    shown = re.findall(r"^  ([\w.]+) = .+$", printed, re.MULTILINE)
    assert shown == list(list_settings(found, found.default_learner))
    needs = estimate(make_experiment(name))
    assert f"{steps:,} steps" in printed
    for machine in (CPU, GPU):
        assert f"on {machine} ({1000 * needs.seconds_per_step[machine]:,.3g} ms a step)" in printed
    assert list_files(here) == {}


def test_it_prints_the_settings_that_were_changed(here: Path, anyshot_here: Anyshot) -> None:
    changes = ["protocol.num_tasks=7", "learner.meta_rate=0.5", "network.hidden=3,4"]
    code, printed, _ = anyshot_here(
        "run", "sinusoid", "--learner", "toe", "--seed", "4", "--out", "new", "--dry-run", "--set", *changes
    )
    assert code == 0
    assert all(f"  {change.replace('=', ' = ')}\n" in printed for change in changes)
    assert "toe on sinusoid, seed 4" in printed
    assert "700 steps" in printed


def test_without_the_data_there_is_no_estimate_but_the_way_to_it(here: Path, anyshot_here: Anyshot) -> None:
    code, printed, _ = anyshot_here("run", "rainbow-mnist", "--out", "new", "--dry-run")
    assert code == 0
    assert "protocol.threshold = 0.85" in printed
    assert "anyshot data fetch rainbow-mnist" in printed
    assert list_files(here) == {}
