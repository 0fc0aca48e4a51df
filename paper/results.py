"""The summaries of finished runs that are kept with the code: written and read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError

from anyshot.errors import DataError, InputError
from anyshot.runs.files import replace_file
from anyshot.runs.reading import read_environment, read_run
from anyshot.runs.records import Evaluation, OfflineSummary, first_problem
from anyshot.runs.table import run_table, table_of, task_table
from paper.jobs import Job, find_job
from paper.records import CONSTANT, LossByShots, Offline, Online, Result, Tasks, Totals, Wall
from paper.targets import TABLES, TUNING_SEED


class Results:
    """All results, as they were read and as a table with a row a run."""

    def __init__(self, found: Sequence[Result]) -> None:
        self.found = sorted(found, key=lambda result: (result.preset, result.label, result.job.seed))
        numbers = ["minutes", "at_once", "steps", "labels", "mastered", CONSTANT]
        numbers += dict.fromkeys(column for table in TABLES.values() for column in table.columns)
        rows = [result.row for result in self.found]
        table = pd.DataFrame(rows, columns=["preset", "label", "seed", *numbers])
        self.table = table.astype(dict.fromkeys(numbers, float))

    def of(self, preset: str, label: str) -> list[Result]:
        """The runs of a method in a setting, by seed; not those of seeds that settings are chosen with."""
        mine = [result for result in self.found if (result.preset, result.label) == (preset, label)]
        return [result for result in mine if result.job.seed < TUNING_SEED]

    def rows(self, preset: str, label: str, tuning: bool = False) -> pd.DataFrame:
        """Their numbers, with the seed as index; with `tuning`, those of the seeds that settings are chosen with."""
        table = self.table
        mine = (table["preset"] == preset) & (table["label"] == label) & ((table["seed"] >= TUNING_SEED) == tuning)
        return table[mine].set_index("seed")

    def __contains__(self, job: Job) -> bool:
        return any(result.job == job for result in self.found)


def result_path(results: Path, job: Job) -> Path:
    """Where the summary of a run is kept."""
    return results / job.preset / f"{job.file_name}.json"


def write_result(job: Job, folder: Path, times: Path, results: Path) -> Path:
    """Summarise a finished run and keep the summary.

    Args:
        job: what it is a run of.
        folder: the run folder.
        times: how long each process ran, as the queue has written it; need not be there.
        results: the folder of the summaries.

    Raises:
        DataError: why that is not possible.
    """
    path = result_path(results, job)
    try:
        text = summarise(job, folder, times).model_dump_json() + "\n"
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text.encode())
    except (OSError, DataError, InputError) as error:
        raise DataError(f"its summary could not be written: {error}") from error
    return path


def summarise(job: Job, folder: Path, times: Path) -> Result:
    """What the tables need of a finished run."""
    experiment, events, summary = read_run(folder)
    if summary is None:
        raise InputError(f"{folder} is not finished; go on with the command that began it")
    openings = read_environment(folder)
    environment = {name: value for name, value in (openings or [{}])[-1].items() if name != "opened"}
    outcome: Online | Offline
    if isinstance(summary, OfflineSummary):
        outcome = Offline(steps=summary.steps, best_step=summary.best_step, tests=summary.tests)
    else:
        outcome = _online(folder, [event for event in events if isinstance(event, Evaluation)])
    wall = _read_times(times, len(openings))
    return Result(
        preset=job.preset, label=job.label, experiment=experiment, environment=environment, wall=wall, outcome=outcome
    )


def _online(folder: Path, evaluations: Sequence[Evaluation]) -> Online:
    table = table_of([folder])
    tasks, totals = task_table(table).astype({"labels_until_mastered": "Int64"}), run_table(table).iloc[0]
    losses = {name: float(totals[name]) for name in ("cumulative_loss", "constant_loss") if not pd.isna(totals[name])}
    counts = {name: int(totals[name]) for name in Totals.model_fields if not name.endswith("_loss")}
    columns = {name: _plain(tasks["task" if name == "name" else name]) for name in Tasks.model_fields}
    return Online(
        totals=Totals.model_validate(losses | counts),
        tasks=Tasks.model_validate(columns),
        cumulative_loss=[round(total, 4) for total in tasks["loss"].cumsum()],
        loss_by_shots=_loss_by_shots(table[table["event"] == "evaluation"]),
        rates=_rates([event for event in evaluations if event.ended]),
    )


def _plain(values: pd.Series[Any]) -> list[Any]:
    """The values of a column, None for those that are missing."""
    return [None if pd.isna(value) else value for value in values.tolist()]


def _loss_by_shots(evaluations: pd.DataFrame) -> LossByShots:
    half = (evaluations["position"].max() + 1) // 2
    every = evaluations.groupby("shots")["loss"].mean()
    late = evaluations[evaluations["position"] >= half].groupby("shots")["loss"].mean().reindex(every.index)
    return LossByShots(
        shots=[int(shots) for shots in every.index],
        all=[_rounded(loss) for loss in every],
        late=[None if loss is None else _rounded(loss) for loss in _plain(late)],
    )


def _rates(ends: Sequence[Evaluation]) -> dict[str, list[float]]:
    found = {name: [_rounded(event.rates[name]) for event in ends if name in event.rates] for name in ("beta", "eta")}
    alpha = ends[-1].rates.get("alpha", [])
    found["alpha"] = [_rounded(value) for value in alpha] if isinstance(alpha, list) else []
    return {name: values for name, values in found.items() if values}


def _rounded(value: Any) -> float:
    return float(f"{value:.6g}")


def _read_times(times: Path, openings: int) -> list[Wall] | None:
    """None if they are not those of all processes."""
    try:
        found = [Wall.model_validate_json(line) for line in times.read_text("utf-8").splitlines()]
    except (OSError, ValueError):
        return None
    return found if len(found) >= openings else None


def read_results(folder: Path) -> Results:
    """Read every summary in a folder, PRESET/LABEL-sSEED.json; none if it is not there."""
    found = {path: read_result(path) for path in sorted(folder.glob("*/*-s[0-9]*.json"))}
    first: dict[tuple[str, str], Path] = {}
    for path, result in found.items():
        origin = result.experiment.tasks.origin
        data = origin.model_dump_json() if origin else ""  # some methods of a preset have other settings of its data
        other = first.setdefault((result.preset, data), path)
        if found[other].experiment.tasks.fingerprint != result.experiment.tasks.fingerprint:
            raise DataError(f"{other} and {path} were not run on the same task set, so they cannot be compared")
    return Results([*found.values()])


def read_result(path: Path) -> Result:
    """Read one summary. What it says it is must agree with its experiment, its place and `targets.toml`."""
    try:
        result = Result.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise DataError(f"{path} is not a summary of format 2: {first_problem(error)}") from error
    job = result.job
    if path != result_path(path.parent.parent, job):
        raise DataError(f"{path} is the summary of {job}; move it to {job.preset}/{job.file_name}.json")
    found = find_job(result.experiment)
    if found != job:
        raise DataError(f"{path} says that it is {job}, but its experiment is {found or 'in no table of targets.toml'}")
    return result
