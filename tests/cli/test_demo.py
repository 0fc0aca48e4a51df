"""The demo from start to report at a tiny size, the time it says is left, and Ctrl-C."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anyshot import make_experiment
from anyshot.cli import demo
from anyshot.runs.table import read_runs, run_table, task_table
from tests.support.command_line import Anyshot

pytestmark = pytest.mark.medium

TINY = {
    "network.hidden": (4,),
    "protocol.num_tasks": 5,
    "protocol.max_steps": 10,
    "protocol.threshold": 3.0,
    "protocol.tasks_per_update": 2,
    "protocol.validation_size": 4,
}


def cells(text: str, learner: str) -> list[str]:
    """The first row of a learner: seeds, and then its numbers."""
    line = re.findall(rf"^{learner} +\d .*$", text, re.MULTILINE)[0]
    return re.split(r"  +", line)[1:]


@pytest.fixture(autouse=True)
def _started(anyshot_here: Anyshot) -> None:
    """JAX has started in this process already."""


@pytest.mark.slow
def test_the_table_has_the_numbers_of_the_runs_and_a_second_call_runs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "LEARNERS", ("toe", "ftml-vs"))  # each one compiles
    monkeypatch.setattr("anyshot.report.page.render", lambda figure, form: b"drawn")  # takes seconds, and has its tests
    out = tmp_path / "new" / "demo"
    demo.run_demo("sinusoid", TINY, out, 2, quiet=False)
    printed = capsys.readouterr().out
    assert "toe, ftml-vs on sinusoid" in printed.splitlines()[0]
    assert "ftml-vs, seed 1: compiled in" in printed
    runs = read_runs(out / "runs")
    sums, tasks = run_table(runs), task_table(runs)
    for learner in ("toe", "ftml-vs"):
        own = sums[sums["learner"] == learner]
        found = cells(printed, learner)
        assert found[0] == "2"
        for column, digits in {"labels": 0, "mastered": 1}.items():
            assert f"{own[column].mean():,.{digits}f} ± {own[column].std():,.{digits}f}" in found
        for values in (own["cumulative_loss"], _late_losses(tasks, learner)):
            assert any(_rounds_to(cell, float(np.mean(values))) for cell in found)
    assert "zero-shot loss, last 2 tasks" in printed
    assert re.search(r"95 % interval (ex|in)cludes 0 \(n = 2\)", printed)
    assert not re.search("proof|chance|hint", printed)
    page = out / "report.html"
    assert printed.endswith(f"\nreport with figures: {page}\n")
    assert "data:image/" in page.read_text("utf-8")
    assert len(list((out / "report_files").glob("*.png"))) > 1

    logs = {log: log.stat().st_mtime_ns for log in out.glob("runs/*/events.jsonl")}
    assert len(logs) == 4
    demo.run_demo("sinusoid", TINY, out, 2, quiet=True)
    again = capsys.readouterr().out
    assert again in printed
    assert "seed 1:" not in again
    assert {log: log.stat().st_mtime_ns for log in logs} == logs


def _late_losses(tasks: Any, learner: str) -> Any:
    late = tasks[(tasks["learner"] == learner) & (tasks["position"] >= 3)]
    return late.groupby("run")["zero_shot_loss"].mean()


def _rounds_to(cell: str, value: float) -> bool:
    mean = cell.split(" ± ")[0].replace(",", "")
    return mean == f"{value:.{len(mean.partition('.')[2])}f}"


def test_the_demo_is_of_six_methods_at_a_lower_threshold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(demo, "run_demo", lambda *given: asked.append(given))
    demo.demo(tmp_path / "out", seeds=3)
    assert asked == [("rainbow-digits", {"protocol.threshold": 0.7}, tmp_path / "out", 3, False)]
    assert demo.LEARNERS == ("toe", "ftml", "ftml-vs", "scratch", "scratch-kernel", "anyshot")
    experiments = [make_experiment("rainbow-digits", name, settings=demo.SETTINGS) for name in demo.LEARNERS]
    assert {experiment.protocol.threshold for experiment in experiments} == {0.7}  # type: ignore[union-attr]


def test_the_time_left_falls_to_what_drawing_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = {tmp_path / f"{name}": make_experiment("rainbow-digits", name) for name in ("toe", "ftml")}
    runs[tmp_path / "again"] = runs[tmp_path / "ftml"]
    (tmp_path / "toe").mkdir()
    (tmp_path / "toe/summary.json").touch()
    expected = demo._expected_seconds(runs)
    assert expected[0] == (0.0, 0.0), "it is finished"
    assert expected[1][0] > 0
    assert expected[2] == (0.0, expected[1][1]), "it is compiled once"
    assert 10 < expected[1][1] < 60, "about 20 seconds on two cores"
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    left = []
    for number in range(3):
        for fraction in (0.0, 0.5, 1.0):
            now[0] = sum(map(sum, expected[:number])) + expected[number][0] + fraction * expected[number][1]
            left.append(demo._seconds_left(expected, number, started=0.0)(fraction))
    whole = sum(map(sum, expected))
    assert left[0] == pytest.approx(whole + demo.DRAWING)
    assert left == sorted(left, reverse=True)
    assert left[-1] == pytest.approx(demo.DRAWING)
    now[0] = 2 * (expected[1][0] + expected[1][1]) + 20  # twice as slow so far
    assert demo._seconds_left(expected, 2, started=0.0)(0.0) == pytest.approx(2 * (expected[2][1] + demo.DRAWING))


def test_ctrl_c_says_how_to_go_on(tmp_path: Path, anyshot_here: Anyshot, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*given: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("anyshot.runs.running.drive", interrupt)
    code, _, error = anyshot_here("demo", "--out", str(tmp_path / "a b"), "--seeds", "3", "--quiet")
    assert code == 130
    assert error.count("\n") == 1
    assert error.endswith(f"go on with: anyshot demo --out '{tmp_path / 'a b'}' --seeds 3\n")
