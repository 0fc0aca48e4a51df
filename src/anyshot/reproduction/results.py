"""The summaries in `results/`, read again."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyshot.errors import DataError, InputError
from anyshot.learners.names import LEARNERS, OFFLINE_LEARNERS
from anyshot.reproduction.jobs import Job, described


@dataclass(frozen=True)
class Result:
    """What came out of a run.

    Attributes:
        job: what it was a run of; the preset is the settings' title, which says what is changed if anything is.
        values: the cumulative loss; offline the accuracy in percent (in a regression the loss) by number of shots.
        steps: in all.
        labels: used; None offline.
        mastered: tasks; None offline.
        curve: cumulative loss after each task; empty offline.
        fingerprint: of the task set.
        device: it ran on.
        minutes: of all processes that worked on it; None if not known.
        at_once: most processes that ran beside each other; 0 if not known.
        rates: online, where they are learned: beta and eta after each task, alpha for 0 to M shots in the end.
    """

    job: Job
    values: tuple[float, ...]
    steps: int
    labels: int | None
    mastered: int | None
    curve: tuple[float, ...]
    fingerprint: str
    device: str
    minutes: float | None
    at_once: int
    rates: dict[str, tuple[float, ...]]


class Results:
    """All results, by setting, method and seed."""

    def __init__(self, found: list[Result]) -> None:
        self.found = found

    def of(self, preset: str, learner: str) -> dict[int, Result]:
        """The runs of a method in a setting, by seed."""
        runs = [one for one in self.found if (one.job.preset, one.job.learner) == (preset, learner)]
        return {one.job.seed: one for one in sorted(runs, key=lambda one: one.job.seed)}

    def learners(self, preset: str) -> list[str]:
        """The methods that were run in a setting, in the order of the help."""
        order = list(LEARNERS | OFFLINE_LEARNERS)
        return sorted({one.job.learner for one in self.found if one.job.preset == preset}, key=order.index)

    def presets(self) -> list[str]:
        """The settings, by name."""
        return sorted({one.job.preset for one in self.found})

    def __contains__(self, job: Job) -> bool:
        return job.seed in self.of(job.preset, job.learner)


def read_results(folder: Path) -> Results:
    """Read every summary in a folder, TITLE/LEARNER-sSEED.json; none if it is not there."""
    found = {path: read_result(path) for path in sorted(folder.glob("*/*-s[0-9]*.json"))}
    first: dict[str, Path] = {}
    for path, one in found.items():
        other = first.setdefault(one.job.preset, path)
        if found[other].fingerprint != one.fingerprint:
            raise DataError(f"{other} and {path} were not run on the same task set, so they cannot be compared")
    return Results(list(found.values()))


def read_result(path: Path) -> Result:
    """Read one summary; what it says it is must be what its settings and its place say."""
    try:
        found = json.loads(path.read_text("utf-8"))
        job = Job(*described(found))
        result = _result(job, found)
    except (ValueError, KeyError, TypeError, AttributeError, InputError) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise DataError(f"{path} is no summary of a run that this version knows: {what}") from error
    if found["title"] != job.preset:
        raise DataError(
            f"{path} says that it is {found['title']!r}, but its settings are now called {job.preset!r}; move it away "
            "and run it again"
        )
    if (path.parent.name, path.stem) != (job.preset, f"{job.learner}-s{job.seed}"):
        raise DataError(f"{path} is the summary of {job.name}; move it to {job.preset}/{job.learner}-s{job.seed}.json")
    return result


def _result(job: Job, found: dict[str, Any]) -> Result:
    if job.learner not in LEARNERS | OFFLINE_LEARNERS:
        raise InputError(f"there is no learner {job.learner!r}")
    offline = "test" in found
    totals = found if offline else found["totals"]
    minutes, at_once = _wall(found.get("wall"))
    return Result(
        job,
        tuple(map(_score, found["test"])) if offline else (_number(totals["cumulative_loss"]),),
        int(totals["steps"]),
        None if offline else int(totals["labels"]),
        None if offline else int(totals["mastered"]),
        () if offline else tuple(map(_number, found["cumulative_loss"])),
        found["fingerprint"],
        found["environment"].get("device", "not known"),
        minutes,
        at_once,
        {name: tuple(map(_number, values)) for name, values in found.get("rates", {}).items()},
    )


def _score(test: dict[str, Any]) -> float:
    return _number(100 * test["accuracy"] if "accuracy" in test else test["loss"])


def _number(value: Any) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} is no finite number")
    return float(value)


def _wall(spent: list[dict[str, Any]] | None) -> tuple[float | None, int]:
    if not spent:
        return None, 0
    return sum(one["seconds"] for one in spent) / 60, max(one["at_once"] for one in spent)
