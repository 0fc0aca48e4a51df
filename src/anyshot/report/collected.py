"""Runs read from their folders, those of the same settings together, and what makes them comparable checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from anyshot.errors import DataError, InputError
from anyshot.learners.names import LEARNERS
from anyshot.online.ledger import Ledger
from anyshot.report.naming import differences, title
from anyshot.runs.files import Damaged, unsealed
from anyshot.runs.reading import EVENTS, EXPERIMENT, read_events, read_experiment, read_summary
from anyshot.runs.settings import Settings, settings_from

NEEDED = {"task": str, "step": int, "labels": int, "shots": int, "loss": float, "mastered": bool, "ended": bool}


@dataclass(frozen=True)
class Run:
    """One run folder.

    Attributes:
        folder: where it is.
        learner: the method.
        seed: of the stream and all else.
        settings: but the method and the seed.
        fingerprint: of the task set.
        environment: where the run was opened, one entry each time; empty if that file is missing or damaged.
        events: its evaluations.
        finished: whether it has come to its end.
    """

    folder: Path
    learner: str
    seed: int
    settings: Settings
    fingerprint: str
    environment: tuple[dict[str, Any], ...]
    events: tuple[dict[str, Any], ...]
    finished: bool

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


def collect(places: Sequence[Path]) -> list[Group]:
    """Read run folders, or folders that hold run folders, and group them by what they are runs of."""
    groups: dict[str, list[Run]] = {}
    for folder in _folders(places):
        run = read_run(folder)
        groups.setdefault(f"{run.settings.model_dump_json()} {run.fingerprint}", []).append(run)
    found = list(groups.values())
    first = found[0][0]
    return [_group(runs, None if runs[0] is first else first) for runs in found]


def read_run(folder: Path) -> Run:
    """Read one run folder; it need not be finished, nor have checkpoints."""
    experiment = read_experiment(folder)
    try:
        settings = settings_from(experiment["settings"])
        learner, seed, fingerprint = (experiment[name] for name in ("learner", "seed", "fingerprint"))
    except (InputError, KeyError, TypeError) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise DataError(f"{folder / EXPERIMENT} is of no online run that this version knows: {what}") from error
    finished = read_summary(folder) is not None  # before the events: after the summary the log does not grow
    events = [event for event in read_events(folder) if "pretraining" not in event]
    for number, event in enumerate(events, start=1):
        _check(folder, number, event)
    return Run(folder, learner, seed, settings, fingerprint, _environment(folder), tuple(events), finished)


def _folders(places: Sequence[Path]) -> list[Path]:
    if not places:
        raise InputError("a run folder is missing; give one or more, or a folder that holds some")
    found: dict[Path, Path] = {}
    for place in places:
        if not place.is_dir():
            raise InputError(f"{place} is " + ("a file, no run folder" if place.exists() else "not there"))
        here = [place] if (place / EXPERIMENT).is_file() else [p.parent for p in sorted(place.glob(f"*/{EXPERIMENT}"))]
        if not here:
            raise InputError(f"{place} is no run folder and holds none: there is no {EXPERIMENT} in it")
        for folder in here:
            found.setdefault(folder.resolve(), folder)
    return list(found.values())


def _check(folder: Path, number: int, event: dict[str, Any]) -> None:
    for name, kind in (("position", int), *NEEDED.items()):
        value = event.get(name)
        right = isinstance(value, (int, float) if kind is float else kind)
        if not right or (isinstance(value, bool) and kind is not bool):
            raise DataError(
                f"{folder / EVENTS}: evaluation {number} has {name} {value!r}, which no run writes; start the run "
                "again to have it restored"
            )


def _environment(folder: Path) -> tuple[dict[str, Any], ...]:
    """Where the run was opened; it is told, but nothing depends on it."""
    try:
        return tuple(unsealed((folder / "environment.json").read_bytes()))
    except (Damaged, OSError, TypeError):
        return ()


def _group(runs: list[Run], other: Run | None) -> Group:
    runs = sorted(runs, key=_order)
    kept, left_out = [run for run in runs if run.finished], [run for run in runs if not run.finished]
    notes = [_unlike(runs[0], other)] if other else []
    if kept:
        notes += [
            f"{run.folder} ({run.learner}, seed {run.seed}) is not finished, {_counted(run.ended, 'task')} so far, and "
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
        notes.append(f"{all_runs}; what follows is of the first {_counted(tasks, 'task')}, which all have ended.")
    for run in kept:
        if not run.events:
            raise DataError(f"{run.folder} is finished but has no evaluations, so there is nothing to compare")
    _check_streams(kept)
    seeds = {learner: [run.seed for run in kept if run.learner == learner] for learner in (r.learner for r in kept)}
    if len(set(map(tuple, seeds.values()))) > 1:
        told = "; ".join(f"{learner} {numbers(has)}" for learner, has in seeds.items())
        notes.append(
            f"Not all learners have the same seeds ({told}), so their means are over different streams; the paired "
            "differences are not: they use the seeds that both have."
        )
    return Group(title(runs[0].settings), runs[0].settings, tuple(kept), tuple(left_out), tuple(notes))


def _order(run: Run) -> tuple[int, str, int]:
    place = list(LEARNERS).index(run.learner) if run.learner in LEARNERS else len(LEARNERS)
    return place, run.learner, run.seed


def _unlike(run: Run, other: Run) -> str:
    how = [f"{name} {ours} instead of {theirs}" for name, theirs, ours in differences(other.settings, run.settings)]
    return "Apart from the above, because these runs have " + ", ".join(how or ["another task set of that name"]) + "."


def _check_streams(runs: Iterable[Run]) -> None:
    """Runs of one seed must have had the same tasks in the same order, or a paired difference would mean nothing."""
    known: dict[int, Run] = {}
    seen: dict[tuple[str, int], Run] = {}
    for run in runs:
        twin = seen.setdefault((run.learner, run.seed), run)
        if twin is not run:
            raise InputError(f"{twin.folder} and {run.folder} are the same experiment; give one of them only")
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


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def numbers(values: Sequence[int]) -> str:
    """Numbers in words between them.

    >>> numbers([0, 1, 2])
    '0, 1 and 2'
    """
    *most, last = map(str, values)
    return f"{', '.join(most)} and {last}" if most else last
