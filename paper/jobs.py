"""The runs behind a table: how each is started, and where it is kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from anyshot.errors import DataError, InputError
from anyshot.runs.naming import nearest_preset
from anyshot.runs.reading import EXPERIMENT_FILE, read_run
from anyshot.runs.records import ExperimentRecord
from anyshot.sweeps.trials import Candidate, Trial
from paper.targets import TABLES, Table, specs_of


@dataclass(frozen=True)
class Job:
    """One run: a preset, the label of a method, and a seed."""

    preset: str
    label: str
    seed: int

    def __str__(self) -> str:
        return f"{self.preset} {self.label}, seed {self.seed}"

    @property
    def file_name(self) -> str:
        """Of its summary, without an ending."""
        return f"{self.label}-s{self.seed}"

    @property
    def trial(self) -> Trial:
        """As a sweep runs it.

        >>> Job("pose", "toe", 1).trial.name
        'pose/toe-s1'
        """
        spec = specs_of(self.label)[0]
        return Trial(Candidate.of(self.preset, spec.learner, spec.settings), self.seed)

    def folder(self, out: Path) -> Path:
        """Its run folder."""
        return out / self.trial.name

    def times(self, out: Path) -> Path:
        """How long it ran each time, as JSON lines."""
        folder = self.folder(out)
        return folder.with_name(f"{folder.name}.times")

    def finished(self, out: Path) -> bool:
        """Whether its folder holds this run, finished and undamaged."""
        folder = self.folder(out)
        if not (folder / EXPERIMENT_FILE).is_file():
            return False
        try:
            experiment, _, summary = read_run(folder)
            return summary is not None and find_job(experiment) == self
        except (DataError, InputError):  # the run itself repairs what is damaged, or says what is wrong
            return False


def list_jobs(tables: Iterable[Table], seeds: int | None = None) -> list[Job]:
    """The runs of some tables, each once: in each table all methods with seed 0, then with seed 1, and so on.

    Args:
        tables: whose runs.
        seeds: how many; by default as many as each table asks for.
    """
    every = (
        Job(table.preset, label, seed)
        for table in tables
        for seed in range(table.first_seed, table.first_seed + (table.seeds if seeds is None else seeds))
        for label in table.paper
    )
    return list(dict.fromkeys(every))


def find_job(experiment: ExperimentRecord) -> Job | None:
    """The job that a run of this experiment belongs to; None if no table has it."""
    preset, changes = nearest_preset(experiment) or ("", {})
    for label in [label for table in TABLES.values() if table.preset == preset for label in table.paper]:
        if any((spec.learner, spec.settings) == (experiment.learner.name, changes) for spec in specs_of(label)):
            return Job(preset, label, experiment.seed)
    return None
