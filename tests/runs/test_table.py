"""Tables of runs, against naive loops over the records."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from anyshot.runs.reading import read_run
from anyshot.runs.records import Evaluation, Score, Trial
from anyshot.runs.table import read_runs, run_table, task_table
from tests.support.small_runs import small_online
from tests.support.toy_runs import Stop, toy

NAMES = ["ftml-vs-0", "ftml-vs-1", "maml-vs-0", "toe-0", "toe-1"]


@pytest.fixture(scope="module")
def table(family: Path) -> pd.DataFrame:
    return read_runs(family)


def evaluations(folder: Path) -> list[Evaluation]:
    return [event for event in read_run(folder)[1] if isinstance(event, Evaluation)]


def rows_of(table: pd.DataFrame, folder: Path) -> list[dict[str, Any]]:
    return table[table["run"] == str(folder)].to_dict("records")


@pytest.mark.medium
def test_a_row_an_evaluation(table: pd.DataFrame, family: Path) -> None:
    assert list(table["run"].unique()) == [str(family / name) for name in NAMES]
    for name in set(NAMES) - {"maml-vs-0"}:
        rows, found = rows_of(table, family / name), evaluations(family / name)
        assert len(rows) == len(found) > 20
        for row, event in zip(rows, found, strict=True):
            plain = {key: value for key, value in event.to_json().items() if key not in ("kind", "train", "rates")}
            assert {key: row[key] for key in plain} == plain
            assert row["event"] == "evaluation"
            assert math.isnan(row["accuracy"])
            assert {key: row[f"train.{key}"] for key in event.train} == event.train
            for key, value in event.rates.items():
                assert row[f"rate.{key}"] == (tuple(value) if isinstance(value, list) else value)
        assert (rows[0]["learner"], rows[0]["seed"]) == (name[:-2], int(name[-1]))
        assert (rows[0]["kind"], rows[0]["finished"]) == ("online", True)


def test_an_offline_run_has_a_row_for_each_number_of_shots(table: pd.DataFrame, offline_folder: Path) -> None:
    expected: list[dict[str, Any]] = []
    for event in read_run(offline_folder)[1]:
        if isinstance(event, Trial):
            assert event.loss is not None
            common = {"event": "trial", "step": event.step, "score": event.score, "better": event.better}
            expected += [{**common, "shots": s, "loss": x} for s, x in zip((0, 2, 5), event.loss, strict=True)]
        else:
            assert isinstance(event, Score)
            plain = event.to_json()
            by_task = plain.pop("task_loss")
            assert sum(by_task.values()) / len(by_task) == pytest.approx(event.loss, rel=1e-12)
            expected.append({"event": "test", **{key: plain[key] for key in plain if key != "kind"}})
            named = {"event": "test task", "shots": event.shots}
            expected += [{**named, "task": task, "loss": loss} for task, loss in by_task.items()]
    rows = rows_of(table, offline_folder)
    assert len(rows) == len(expected) == 3 * 3 + 3 * (1 + 2)
    for row, wanted in zip(rows, expected, strict=True):
        assert {key: row[key] for key in wanted} == wanted
        assert row["kind"] == "offline"


def test_settings_are_columns(table: pd.DataFrame, family: Path) -> None:
    for name in NAMES:
        record = read_run(family / name)[0]
        for row in rows_of(table, family / name):
            for key, value in record.settings().items():
                found = row[key]
                if value is None:
                    assert found is None or math.isnan(found)
                else:
                    assert found == (tuple(value) if isinstance(value, list) else value), key
    groups = table.groupby(["learner", "network.hidden", "protocol.max_shots"]).size()
    assert list(groups.index) == [("ftml-vs", (8,), 5), ("maml-vs", (8,), 5), ("toe", (8,), 5)]


def test_a_row_a_task(table: pd.DataFrame, family: Path) -> None:
    rows = {(row["run"], row["position"]): row for row in task_table(table).to_dict("records")}
    wanted = 0
    for name in set(NAMES) - {"maml-vs-0"}:
        found = evaluations(family / name)
        for position in range(6):
            own = [event for event in found if event.position == position]
            until = [event.labels for event in own if event.mastered]
            row, wanted = rows[str(family / name), position], wanted + 1
            assert row["task"] == own[0].task
            assert (row["labels"], row["steps"], row["evaluations"]) == (own[-1].labels, own[-1].step, len(own))
            assert row["loss"] == pytest.approx(sum(event.loss for event in own), rel=1e-12)
            assert (row["zero_shot_loss"], row["last_loss"]) == (own[0].loss, own[-1].loss)
            assert (row["mastered"], row["ended"]) == (bool(until), True)
            assert row["labels_until_mastered"] == until[0] if until else math.isnan(row["labels_until_mastered"])
    assert len(rows) == wanted == 24
    assert {bool(row["mastered"]) for row in rows.values()} == {True, False}


def test_a_row_a_run(table: pd.DataFrame, family: Path) -> None:
    rows = run_table(table).to_dict("records")
    assert [row["run"] for row in rows] == [str(family / name) for name in NAMES if name != "maml-vs-0"]
    for row in rows:
        _, _, summary = read_run(Path(row["run"]))
        found = evaluations(Path(row["run"]))
        labels = {event.position: event.labels for event in found}
        steps = {event.position: event.step for event in found}
        assert row["cumulative_loss"] == summary.total_loss  # type: ignore[union-attr]
        tasks = small_online().tasks
        tested = {name: tasks.y[rows] for name, rows in zip(tasks.task_names, tasks.test_rows, strict=True)}
        constant = np.mean(list(tested.values()))
        by_hand = sum(float(np.mean((tested[event.task] - constant) ** 2)) for event in found)
        assert row["constant_loss"] == pytest.approx(by_hand, rel=1e-5)
        assert row["cumulative_loss"] == pytest.approx(np.sum([event.loss for event in found]), rel=1e-12)
        assert row["labels"] == sum(labels.values()) == summary.total_labels  # type: ignore[union-attr]
        assert row["steps"] == sum(steps.values())
        assert row["mastered"] == len({e.position for e in found if e.mastered}) == summary.mastered  # type: ignore[union-attr]
        assert (row["tasks"], row["evaluations"], row["test_labels"]) == (6, len(found), 60)


def test_a_run_that_was_stopped_or_has_only_begun_has_its_rows(tmp_path: Path) -> None:
    for name, stop in (("none", 0), ("some", 5)):
        with pytest.raises(Stop):
            toy(tmp_path / name, stop=stop)
    table = read_runs([str(tmp_path / "none"), tmp_path / "some"])
    assert list(table["event"]) == ["none"] + ["evaluation"] * 10
    assert not table["finished"].any()
    assert list(table["protocol.rounds"]) == [9] * 11
    assert list(run_table(table)["tasks"]) == [5]


def test_tables_of_offline_runs_alone_are_empty(offline_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(offline_folder, tmp_path / "run")
    table = read_runs(tmp_path)
    assert len(table) == 18
    assert len(task_table(table)) == len(run_table(table)) == 0
