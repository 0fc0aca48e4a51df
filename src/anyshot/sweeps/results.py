"""What the run folders of a sweep hold."""

from __future__ import annotations

import math
from pathlib import Path

from pydantic import ValidationError

from anyshot.errors import DataError, InputError
from anyshot.runs.checkpoints import EVENTS, list_checkpoints
from anyshot.runs.learner_records import default_hyperparameters
from anyshot.runs.reading import CHECKPOINTS_FOLDER, EXPERIMENT_FILE, read_run
from anyshot.runs.records import EVENTS as EVENT_TYPES
from anyshot.runs.records import Evaluation, OnlineSummary
from anyshot.runs.sameness import check_same
from anyshot.sweeps.trials import Candidate, Trial


class FolderResults:
    """The losses of runs, read from their folders once, and again when a leg has ended.

    Args:
        out: the sweep's folder.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self._losses: dict[Trial, dict[int | None, float]] = {}
        self._diverged: set[Trial] = set()

    def folder(self, trial: Trial) -> Path:
        """The run folder of a trial."""
        return self.out / trial.name

    def loss(self, trial: Trial, until: int | None) -> float | None:
        """The cumulative loss when so many tasks had ended, or at the end (0 offline); None if it is not there yet.

        A number of tasks counts once a checkpoint has it: only then does the run go on from there.
        """
        if trial not in self._losses:
            self.read(trial)
        return self._losses[trial].get(until, math.inf if trial in self._diverged else None)

    def read(self, trial: Trial) -> None:
        """Look at the folder again."""
        self._losses[trial] = _read_losses(self.folder(trial))

    def mark_diverged(self, trial: Trial) -> None:
        """A loss was not finite; the same happens whenever the run is tried again."""
        self._diverged.add(trial)


def check_folders(out: Path, candidate: Candidate, seeds: list[int]) -> None:
    """Refuse folders of the same name with other experiments, such as runs of an own function that has changed."""
    there = [seed for seed in seeds if (out / Trial(candidate, seed).name / EXPERIMENT_FILE).exists()]
    if not there:
        return
    ours = candidate.make(there[0])
    for seed in there:
        folder = out / Trial(candidate, seed).name
        try:
            theirs = read_run(folder)[0]
        except DataError:  # the run itself repairs what is damaged, or says what is wrong
            continue
        record = ours.record.model_copy(update={"seed": seed})
        check_same(folder, theirs, record, default_hyperparameters(ours.learner))


def _read_losses(folder: Path) -> dict[int | None, float]:
    if not (folder / EXPERIMENT_FILE).is_file():
        return {}
    found: dict[int | None, float] = {}
    try:
        summary = read_run(folder)[2]
        if summary is not None:
            found[None] = summary.total_loss if isinstance(summary, OnlineSummary) else 0.0
    except (DataError, InputError):  # as above
        return {}
    numbers = list_checkpoints(folder / CHECKPOINTS_FOLDER)
    if not numbers:
        return found
    first: int | None = None
    try:
        lines = (folder / CHECKPOINTS_FOLDER / f"{numbers[0]:010d}" / EVENTS).read_bytes().splitlines()
        for line in lines:
            event = EVENT_TYPES.validate_json(line)
            if isinstance(event, Evaluation):
                first = event.position if first is None else first
                if event.ended:
                    found[event.position - first + 1] = event.total_loss
    except (OSError, ValidationError):  # damaged, and written again by the next leg
        pass
    return found
