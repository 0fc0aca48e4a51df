"""Small JSON summaries of finished runs, to be kept with the code."""

from __future__ import annotations

import calendar
import itertools
import json
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from anyshot.errors import DataError, InputError
from anyshot.online.ledger import Ledger
from anyshot.report.folders import opened
from anyshot.report.naming import title
from anyshot.report.writing import write_text
from anyshot.reproduction.jobs import Job
from anyshot.runs.reading import SUMMARY, read_events, read_experiment, read_summary
from anyshot.runs.settings import OfflineSettings

COLUMNS = ("name", "labels", "labels_until_mastered", "steps", "zero_shot_accuracy", "last_accuracy", "mastered")


def summarise(run: Path, times: Path | None = None) -> dict[str, Any]:
    """What a reader of the tables needs of a run: what it was, where it ran and how long, and what came out.

    Args:
        run: its folder.
        times: how long each process ran that worked on it, as the queue has written it.
    """
    came_out = read_summary(run)
    if came_out is None:
        raise InputError(f"{run} is not finished; go on with the command that began it")
    one = opened(run)
    last = one.environment[-1] if one.environment else {}
    found = {
        "title": title(one.settings),
        **read_experiment(run),
        "environment": {name: value for name, value in last.items() if name != "opened"},
        "wall": _wall(run, one.environment, times),
    }
    if isinstance(one.settings, OfflineSettings):
        return found | {name: came_out[name] for name in ("steps", "best_step", "test")}
    events = read_events(run)
    ledger = Ledger.of(events, one.settings.protocol.test)
    return found | {
        "totals": ledger.totals(),
        "tasks": {column: [getattr(task, column) for task in ledger.tasks] for column in COLUMNS},
        "cumulative_loss": [round(total, 4) for total in itertools.accumulate(task.loss for task in ledger.tasks)],
        "loss_by_shots": _by_shots(events),
        "rates": _rates(events),
    }


def _by_shots(events: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """The mean loss with each number of shots, over all tasks and over the second half of them (null if none)."""
    evaluated = [event for event in events if "shots" in event]
    half = (max(event["position"] for event in evaluated) + 1) // 2
    late = [event for event in evaluated if event["position"] >= half]
    shots = sorted({event["shots"] for event in evaluated})
    return {
        "shots": shots,
        "all": [_mean_loss(evaluated, s) for s in shots],
        "late": [_mean_loss(late, s) for s in shots],
    }


def _mean_loss(events: Sequence[dict[str, Any]], shots: int) -> float | None:
    found = [event["loss"] for event in events if event["shots"] == shots]
    return _rounded(fmean(found)) if found else None


def _rates(events: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    """What was learned of the step size: beta and eta at the end of each task, alpha at the end of the last."""
    ends = [event for event in events if event.get("ended")]
    found = {name: [_rounded(event[name]) for event in ends if name in event] for name in ("beta", "eta")}
    alpha = [event["alpha"] for event in ends if "alpha" in event][-1:]
    found["alpha"] = [_rounded(value) for value in alpha[0]] if alpha else []
    return {name: values for name, values in found.items() if values}


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def place(results: Path, job: Job) -> Path:
    """Where the summary of a run is kept."""
    return results / job.preset / f"{job.learner}-s{job.seed}.json"


def write_summary(job: Job, out: Path, results: Path) -> Path:
    """Summarise a run that is finished, and keep it; a `DataError` says why that cannot be."""
    to = place(results, job)
    try:
        found = summarise(job.folder(out), job.times(out))
        to.parent.mkdir(parents=True, exist_ok=True)
        write_text(to, json.dumps(found, allow_nan=False) + "\n")
    except (OSError, DataError, InputError) as error:
        raise DataError(f"its summary could not be kept: {error}") from error
    return to


def _wall(run: Path, openings: tuple[dict[str, Any], ...], times: Path | None) -> list[dict[str, Any]] | None:
    """Seconds of each process that worked on the run, and how many ran at once (0: not known); None if not all are."""
    if times is not None and times.is_file():
        spent = [json.loads(line) for line in times.read_text("utf-8").splitlines()]
        return spent if len(spent) >= len(openings) else None
    if len(openings) != 1:
        return None
    try:
        began = calendar.timegm(time.strptime(openings[0]["opened"], "%Y-%m-%dT%H:%M:%SZ"))
    except (KeyError, ValueError):
        return None
    return [{"seconds": round((run / SUMMARY).stat().st_mtime - began, 1), "at_once": 0}]
