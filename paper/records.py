"""What is in a summary: the types of PRESET/LABEL-sSEED.json in `paper/results`, format 2."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from anyshot.runs.records import ExperimentRecord, Score
from paper.jobs import Job
from paper.targets import CUMULATIVE_LOSS

CONSTANT = "constant"  # the column for what a constant prediction would have cost


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Wall(_Record):
    """How long a process worked on a run, and how many ran beside each other (0: not known)."""

    seconds: float
    at_once: int


class Totals(_Record):
    """The sums of an online run; see `anyshot.runs.table.run_table`."""

    cumulative_loss: float
    constant_loss: float | None = None
    labels: int
    test_labels: int
    steps: int
    mastered: int
    evaluations: int


class Tasks(_Record):
    """The tasks of an online run, in the order they came; see `anyshot.runs.table.task_table`."""

    name: list[str]
    labels: list[int]
    labels_until_mastered: list[int | None]
    steps: list[int]
    zero_shot_accuracy: list[float | None]
    last_accuracy: list[float | None]
    mastered: list[bool]


class LossByShots(_Record):
    """The mean loss with each number of shots, over all tasks and over the second half of them (None if none)."""

    shots: list[int]
    all: list[float]
    late: list[float | None]


class Online(_Record):
    """What came out of an online run.

    Attributes:
        cumulative_loss: after each task.
        rates: beta and eta at the end of each task, and alpha for s = 0..M at the end, where they are reported.
    """

    kind: Literal["online"] = "online"
    totals: Totals
    tasks: Tasks
    cumulative_loss: list[float]
    loss_by_shots: LossByShots
    rates: dict[str, list[float]] = {}


class Offline(_Record):
    """What came out of an offline run: meta-updates, those of the state that was kept, and its tests."""

    kind: Literal["offline"] = "offline"
    steps: int
    best_step: int
    tests: list[Score]


class Result(_Record):
    """One run.

    Attributes:
        preset: its setting.
        label: its method in `targets.toml`.
        experiment: everything that the result depends on, as in the run folder.
        environment: versions, machine and device of the last process.
        wall: the times of all processes; None if they were not kept.
        outcome: what came out.
    """

    format: Literal[2] = 2
    preset: str
    label: str
    experiment: ExperimentRecord
    environment: dict[str, Any]
    wall: list[Wall] | None
    outcome: Annotated[Online | Offline, Field(discriminator="kind")]

    @property
    def job(self) -> Job:
        """What it is the result of."""
        return Job(self.preset, self.label, self.experiment.seed)

    @property
    def row(self) -> dict[str, Any]:
        """Its numbers as a row of `Results.table`."""
        minutes = sum(wall.seconds for wall in self.wall) / 60 if self.wall else None
        at_once = max(wall.at_once for wall in self.wall) if self.wall else None
        row = {
            "preset": self.preset,
            "label": self.label,
            "seed": self.job.seed,
            "minutes": minutes,
            "at_once": at_once,
        }
        if isinstance(self.outcome, Offline):
            accuracies = {f"{test.shots}-shot": 100 * (test.accuracy or 0.0) for test in self.outcome.tests}
            return row | {"steps": self.outcome.steps} | accuracies
        totals = self.outcome.totals
        counts = {"steps": totals.steps, "labels": totals.labels, "mastered": totals.mastered}
        return row | counts | {CUMULATIVE_LOSS: totals.cumulative_loss, CONSTANT: totals.constant_loss}
