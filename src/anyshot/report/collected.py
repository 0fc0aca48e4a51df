"""Runs read from their folders, online and offline, those of the same settings together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from anyshot.errors import DataError
from anyshot.report.folders import opened, run_folders
from anyshot.report.offline_runs import OfflineGroup, OfflineRun, group_offline, read_offline
from anyshot.report.online_runs import Group, Run, group_online, read_online
from anyshot.runs.settings import OfflineSettings


def read_run(folder: Path) -> Run | OfflineRun:
    """Read one run folder; it need not be finished, nor have checkpoints."""
    run = opened(folder)
    if isinstance(run.settings, OfflineSettings):
        return read_offline(run, run.settings)
    return read_online(run, run.settings)


def collect(places: Sequence[Path]) -> list[Group | OfflineGroup]:
    """Read run folders, or folders that hold run folders, and group them by what they are runs of: online ones first.

    Raises:
        DataError: there is nothing to compare in them yet.
    """
    runs = [read_run(folder) for folder in run_folders(places)]
    offline, waiting = group_offline(run for run in runs if isinstance(run, OfflineRun))
    groups: list[Group | OfflineGroup] = [*group_online(run for run in runs if isinstance(run, Run)), *offline]
    if not groups:
        raise DataError(waiting[0])
    notes = tuple(f"Left out: {sentence}." for sentence in waiting)
    return [*groups[:-1], replace(groups[-1], notes=groups[-1].notes + notes)]
