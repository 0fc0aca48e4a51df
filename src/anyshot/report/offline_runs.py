"""Offline runs read from their folders, and those that can be compared together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from anyshot.errors import DataError
from anyshot.report.folders import Opened, check_line
from anyshot.report.grouping import alike, check_twins, on_seeds, unlike
from anyshot.report.naming import title
from anyshot.report.wording import counted, listed
from anyshot.runs.reading import EVENTS, read_events
from anyshot.runs.settings import OfflineSettings

TRIAL = {"step": int, "better": bool, "ended": bool}
TEST = {"shots": int, "episodes": int}


@dataclass(frozen=True)
class OfflineRun(Opened):
    """One run folder.

    Attributes:
        trials: on the validation tasks, in the order of training.
        tests: of what was kept, one for each number of shots; none while the run is not finished.
    """

    settings: OfflineSettings
    trials: tuple[dict[str, Any], ...]
    tests: tuple[dict[str, Any], ...]

    @property
    def steps(self) -> int:
        """Meta-updates so far."""
        return int(self.trials[-1]["step"]) if self.trials else 0

    @property
    def best(self) -> dict[str, Any] | None:
        """The trial of what was kept, and tested; None before the first one."""
        return next((trial for trial in reversed(self.trials) if trial["better"]), None)

    @property
    def measure(self) -> str:
        """What is tried and tested: accuracy, or loss in a regression."""
        return "accuracy" if any("validation_accuracy" in t or "accuracy" in t for t in self._lines) else "loss"

    @property
    def _lines(self) -> tuple[dict[str, Any], ...]:
        return (*self.tests, *self.trials)

    @property
    def validation(self) -> list[tuple[float, float]]:
        """Step and mean over the numbers of shots of every trial; none without validation tasks."""
        sign = 1 if self.measure == "accuracy" else -1  # a score is better when higher
        return [(float(trial["step"]), sign * trial["score"]) for trial in self.trials if "score" in trial]


@dataclass(frozen=True)
class OfflineGroup:
    """Runs of the same settings on the same task set, which can be compared.

    Attributes:
        title: what they are runs of, in short.
        settings: that they share.
        runs: those compared, by learner and seed; all are finished.
        left_out: runs that are not finished.
        notes: sentences a reader must know.
    """

    title: str
    settings: OfflineSettings
    runs: tuple[OfflineRun, ...]
    left_out: tuple[OfflineRun, ...]
    notes: tuple[str, ...]

    @property
    def learners(self) -> list[str]:
        """The methods, in the order of `anyshot offline --help`, then others by name."""
        return list(dict.fromkeys(run.learner for run in self.runs))

    @property
    def shots(self) -> tuple[int, ...]:
        """Numbers of shots that were tested."""
        return self.settings.plan.test_shots

    @cached_property
    def measure(self) -> str:
        """What was tested: accuracy, or loss in a regression."""
        return self.runs[0].measure

    def of(self, learner: str) -> dict[int, OfflineRun]:
        """The runs of a method, by seed."""
        return {run.seed: run for run in self.runs if run.learner == learner}


def read_offline(run: Opened, settings: OfflineSettings) -> OfflineRun:
    """The rest of an offline run, whose folder was opened before: after its summary the log does not grow."""
    events = read_events(run.folder)
    trials = [event for event in events if "test" not in event]
    # Lines of the test may be there without a summary; the run, when it goes on, writes them again.
    tests = [event for event in events if "test" in event] if run.finished else []
    for number, trial in enumerate(trials, start=1):
        check_line(run.folder, f"trial {number}", trial, TRIAL | ({"score": float} if "score" in trial else {}))
    for number, line in enumerate(tests, start=1):
        measure = "accuracy" if "accuracy" in line else "loss"
        check_line(run.folder, f"test {number}", line, TEST | {measure: float, f"{measure}_error": float})
    found, wanted = [line["shots"] for line in tests], list(settings.plan.test_shots)
    if run.finished and (found != wanted or len({"accuracy" in line for line in tests}) > 1):
        raise DataError(
            f"{run.folder / EVENTS} should have one test each of {listed(wanted)} shots, but has "
            f"{listed(found) if found else 'none'}; start the run again in a new folder"
        )
    return OfflineRun(
        run.folder,
        run.learner,
        run.seed,
        settings,
        run.fingerprint,
        run.environment,
        run.finished,
        tuple(trials),
        tuple(tests),
    )


def group_offline(runs: Iterable[OfflineRun]) -> tuple[list[OfflineGroup], list[str]]:
    """The finished runs grouped by what they are runs of, and a sentence for each setting of which none is finished."""
    groups, waiting = [], []
    first: OfflineRun | None = None
    for group in alike(runs):
        kept, left_out = [run for run in group if run.finished], [run for run in group if not run.finished]
        if not kept:
            far = ", ".join(f"{run.folder} has done {counted(run.steps, 'step')}" for run in left_out)
            waiting.append(
                f"no run of {title(group[0].settings)} is finished, so there is no test to show: {far} of at most "
                f"{group[0].settings.plan.steps:,}"
            )
            continue
        notes = [unlike(kept[0], first)] if first else []
        first = first or kept[0]
        notes += [
            f"{run.folder} ({run.learner}, seed {run.seed}) is not finished, {counted(run.steps, 'step')} so far, and "
            "is left out."
            for run in left_out
        ]
        check_twins(kept)
        notes += on_seeds(kept, "initial weights and draws")
        settings = kept[0].settings
        groups.append(OfflineGroup(title(settings), settings, tuple(kept), tuple(left_out), tuple(notes)))
    return groups, waiting
