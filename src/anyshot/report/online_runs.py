"""Online runs read from their folders, and those that can be compared together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from anyshot.errors import DataError
from anyshot.online.ledger import Ledger
from anyshot.report.folders import Opened, check_line
from anyshot.report.grouping import alike, check_twins, on_seeds, unlike
from anyshot.report.naming import title
from anyshot.report.wording import counted
from anyshot.runs.reading import read_events
from anyshot.runs.settings import Settings

NEEDED = {
    "position": int,
    "task": str,
    "step": int,
    "labels": int,
    "shots": int,
    "loss": float,
    "mastered": bool,
    "ended": bool,
}


@dataclass(frozen=True)
class Run(Opened):
    """One run folder.

    Attributes:
        events: its evaluations.
    """

    settings: Settings
    events: tuple[dict[str, Any], ...]

    @cached_property
    def ledger(self) -> Ledger:
        """The account of every task."""
        return Ledger.of(self.events, self.settings.protocol.test)

    @property
    def ended(self) -> int:
        """How many tasks have ended."""
        return sum(task.ended for task in self.ledger.tasks)

    @cached_property
    def by_task(self) -> list[list[dict[str, Any]]]:
        """The evaluations of each task."""
        tasks: dict[int, list[dict[str, Any]]] = {}
        for event in self.events:
            tasks.setdefault(event["position"], []).append(event)
        return list(tasks.values())

    def first(self, tasks: int) -> Run:
        """The run as it was when this many tasks had ended."""
        return replace(self, events=tuple(event for task in self.by_task[:tasks] for event in task))


@dataclass(frozen=True)
class Group:
    """Runs of the same settings on the same task set, which can be compared.

    Attributes:
        title: what they are runs of, in short.
        settings: that they share.
        runs: those compared, by learner and seed; all have the same number of tasks.
        left_out: runs that are not finished, where others are.
        notes: sentences a reader must know.
    """

    title: str
    settings: Settings
    runs: tuple[Run, ...]
    left_out: tuple[Run, ...]
    notes: tuple[str, ...]

    @property
    def learners(self) -> list[str]:
        """The methods, in the order of `anyshot run --help`, then others by name."""
        return list(dict.fromkeys(run.learner for run in self.runs))

    @property
    def tasks(self) -> int:
        """How many tasks are compared."""
        return len(self.runs[0].ledger.tasks)

    @cached_property
    def classification(self) -> bool:
        """Whether there are accuracies."""
        return all("accuracy" in event for run in self.runs for event in run.events)

    def of(self, learner: str) -> dict[int, Run]:
        """The runs of a method, by seed."""
        return {run.seed: run for run in self.runs if run.learner == learner}


def read_online(run: Opened, settings: Settings) -> Run:
    """The rest of an online run, whose folder was opened before: after its summary the log does not grow."""
    events = [event for event in read_events(run.folder) if "pretraining" not in event]
    for number, event in enumerate(events, start=1):
        check_line(run.folder, f"evaluation {number}", event, NEEDED)
    return Run(
        run.folder, run.learner, run.seed, settings, run.fingerprint, run.environment, run.finished, tuple(events)
    )


def group_online(runs: Iterable[Run]) -> list[Group]:
    """The runs grouped by what they are runs of."""
    found = alike(runs)
    return [_group(group, found[0][0] if number else None) for number, group in enumerate(found)]


def _group(runs: list[Run], other: Run | None) -> Group:
    kept, left_out = [run for run in runs if run.finished], [run for run in runs if not run.finished]
    notes = [unlike(runs[0], other)] if other else []
    if kept:
        notes += [
            f"{run.folder} ({run.learner}, seed {run.seed}) is not finished, {counted(run.ended, 'task')} so far, and "
            "is left out."
            for run in left_out
        ]
    else:
        tasks = min(run.ended for run in runs)
        if not tasks:
            some = next(run for run in runs if not run.ended)
            raise DataError(f"in {some.folder} no task has ended yet; leave it out, or wait until one has")
        kept, left_out = [run.first(tasks) for run in runs], []
        all_runs = "The run is not finished" if len(runs) == 1 else f"None of the {len(runs)} runs is finished"
        notes.append(f"{all_runs}; what follows is of the first {counted(tasks, 'task')}, which all have ended.")
    for run in kept:
        if not run.events:
            raise DataError(f"{run.folder} is finished but has no evaluations, so there is nothing to compare")
    check_twins(kept)
    _check_streams(kept)
    notes += on_seeds(kept, "streams")
    return Group(title(runs[0].settings), runs[0].settings, tuple(kept), tuple(left_out), tuple(notes))


def _check_streams(runs: Iterable[Run]) -> None:
    """Runs of one seed must have had the same tasks in the same order, or a paired difference would mean nothing."""
    known: dict[int, Run] = {}
    for run in runs:
        other = known.setdefault(run.seed, run)
        here, there = ([task.name for task in one.ledger.tasks] for one in (run, other))
        where = next(
            (n for n, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), min(len(here), len(there))
        )
        if here != there:
            a, b = (tasks[where] if where < len(tasks) else "none" for tasks in (there, here))
            raise DataError(
                f"{other.folder} and {run.folder} have the same settings and seed {run.seed}, but not the same stream: "
                f"task {where + 1} is {a!r} in the one and {b!r} in the other; compare them one at a time"
            )
