"""Runs as tidy tables: a row an evaluation, a row a task, a row a run. All sums are made here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from anyshot.runs.reading import find_runs, read_run
from anyshot.runs.records import Evaluation, Event, ExperimentRecord, Pretraining, Score, Trial

RUN = ["run", "kind", "learner", "seed", "finished"]  # the columns that say which run a row is of
EVENT = ["event", "position", "task", "step", "labels", "shots", "loss", "accuracy", "mastered", "ended"]
EVENT += ["total_loss", "total_labels", "score", "better", "loss_error", "accuracy_error", "episodes", "constant_loss"]


def read_runs(folders: str | Path | Sequence[str | Path]) -> pd.DataFrame:
    """Everything that runs have found, one row an evaluation, with their settings as columns.

    Columns: `run` (the folder), `kind` (online or offline), `learner`, `seed`, `finished`; `event` (evaluation,
    pretraining, trial, test, test task) and what it found: `position`, `task`, `step`, `labels`, `shots`, `loss`, ...;
    what the learner reported as `train.loss` and the like, learned rates as `rate.beta` and the like; every setting by
    its dotted name, such as `protocol.threshold` or `learner.inner_rate`. A trial or test offline has one row for each
    number of shots, and a test task one for each of them. Values that a row does not have are missing.

    Args:
        folders: run folders, or folders that hold run folders. Runs need not be finished.
    """
    places = [folders] if isinstance(folders, (str, Path)) else folders
    return table_of(find_runs([Path(place) for place in places]))


def table_of(folders: Iterable[Path]) -> pd.DataFrame:
    """The same, for folders that are known to be run folders."""
    parts = []
    for folder in folders:
        experiment, events, summary = read_run(folder)
        rows = pd.DataFrame([row for event in events for row in _rows(event, experiment)])
        named = {
            "run": str(folder),
            "kind": experiment.kind,
            "learner": experiment.learner.name,
            "seed": experiment.seed,
            "finished": summary is not None,
            "tasks.fingerprint": experiment.tasks.fingerprint,
            **experiment.settings(),
        }
        if rows.empty:  # a run that has only begun still has its settings
            rows = pd.DataFrame([{"event": "none"}])
        columns = {name: [_hashable(value)] * len(rows) for name, value in named.items()}
        parts.append(pd.concat([pd.DataFrame(columns, index=rows.index), rows], axis=1))
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=[*RUN, *EVENT])
    settings = [name for name in table.columns if name not in RUN and name not in EVENT]
    return table.reindex(columns=[*RUN, *EVENT, *settings])


def task_table(runs: pd.DataFrame) -> pd.DataFrame:
    """What each task of each online run cost: one row a run and task, in the order they came.

    Columns: those of the run, `position`, `task`, `labels` (received), `labels_until_mastered` (missing if it never
    was), `steps`, `loss` (summed over its evaluations: its share of the paper's regret), `evaluations`,
    `zero_shot_loss` and `zero_shot_accuracy` (on arrival), `last_loss` and `last_accuracy`, `mastered`, `ended`.

    Args:
        runs: a table that `read_runs` gave.
    """
    evaluations = runs[runs["event"] == "evaluation"]
    groups = evaluations.groupby([*RUN, "position"], sort=False, dropna=False)
    table = groups.agg(
        task=("task", "first"),
        labels=("labels", "last"),
        steps=("step", "last"),
        loss=("loss", "sum"),
        evaluations=("loss", "size"),
        zero_shot_loss=("loss", "first"),
        zero_shot_accuracy=("accuracy", "first"),
        last_loss=("loss", "last"),
        last_accuracy=("accuracy", "last"),
        mastered=("mastered", "any"),
        ended=("ended", "any"),
    )
    mastered = evaluations[evaluations["mastered"].astype(bool)]
    first = mastered.groupby([*RUN, "position"], sort=False, dropna=False)["labels"].first()
    table["labels_until_mastered"] = first
    return table.reset_index().astype({"position": int, "labels": int, "steps": int, "mastered": bool, "ended": bool})


def run_table(runs: pd.DataFrame) -> pd.DataFrame:
    """The sums of each online run: one row a run.

    Columns: those of the run, `tasks`, `cumulative_loss` (the paper's regret: test losses summed over all evaluations),
    `labels`, `test_labels` (used for evaluation only), `steps`, `mastered` (tasks), `evaluations`, `constant_loss`
    (what the best constant prediction would have cost in a regression; missing if a run does not say).

    Args:
        runs: a table that `read_runs` gave.
    """
    tasks = task_table(runs)
    evaluations = runs[runs["event"] == "evaluation"]
    evaluations = evaluations.reindex(columns=[*RUN, "total_loss", "constant_loss", "protocol.test_size"])
    table = tasks.groupby(RUN, sort=False).agg(
        tasks=("position", "size"),
        labels=("labels", "sum"),
        steps=("steps", "sum"),
        mastered=("mastered", "sum"),
        evaluations=("evaluations", "sum"),
    )
    by_run = evaluations.groupby(RUN, sort=False)
    table["cumulative_loss"] = by_run["total_loss"].last()  # added up in the order of the evaluations
    table["constant_loss"] = by_run["constant_loss"].agg(lambda losses: losses.astype(float).sum(skipna=False))
    table["test_labels"] = table["tasks"] * by_run["protocol.test_size"].first()
    return table.reset_index()


def _rows(event: Event, experiment: ExperimentRecord) -> Iterator[dict[str, Any]]:
    """The rows of one event."""
    if isinstance(event, Trial):
        found = event.model_dump(include={"step", "score", "better", "ended"}, exclude_none=True)
        trained = {"event": "trial", **found, **_extras(event)}
        shots = experiment.test_shots if event.loss is not None else []
        for place, count in enumerate(shots):
            accuracy = {"accuracy": event.accuracy[place]} if event.accuracy is not None else {}
            yield {**trained, "shots": count, "loss": event.loss and event.loss[place], **accuracy}
        if not shots:
            yield trained
    elif isinstance(event, Score):
        yield {"event": "test", **event.model_dump(exclude={"kind", "task_loss", "task_accuracy"}, exclude_none=True)}
        for task, loss in (event.task_loss or {}).items():
            accuracy = {"accuracy": event.task_accuracy[task]} if event.task_accuracy else {}
            yield {"event": "test task", "task": task, "shots": event.shots, "loss": loss, **accuracy}
    elif isinstance(event, Pretraining):
        yield {"event": "pretraining", **_extras(event)}
    else:
        found = event.model_dump(exclude={"kind", "train", "rates"}, exclude_none=True)
        yield {"event": "evaluation", **found, **_extras(event)}


def _extras(event: Evaluation | Trial | Pretraining) -> dict[str, Any]:
    train = {f"train.{name}": value for name, value in event.train.items()}
    rates = {} if isinstance(event, Pretraining) else {f"rate.{name}": _hashable(v) for name, v in event.rates.items()}
    return {**train, **rates}


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
