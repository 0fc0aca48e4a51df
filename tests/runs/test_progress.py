"""How far a run is: plain lines, one live line on a terminal, nothing if it is to be quiet."""

from __future__ import annotations

import io
import re
import sys
from typing import Any

import pytest

from anyshot import Experiment, make_experiment
from anyshot.runs.progress import Progress
from anyshot.runs.records import Evaluation, Pretraining, Trial


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return make_experiment("sinusoid", "toe", settings={"protocol.num_tasks": 8})


def event(position: int, ended: bool, **more: Any) -> Evaluation:
    return Evaluation(
        position=position,
        task="red",
        step=5,
        labels=8,
        shots=4,
        loss=1.5,
        mastered=ended,
        ended=ended,
        total_loss=9.25,
        total_labels=1234,
        **more,
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def test_plain_lines_have_task_shots_labels_and_time_left(
    experiment: Experiment, clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(experiment) as progress:
        progress("compiling", None)
        clock[0] += 50
        progress("compiled", 50.0)
        clock[0] += 7
        progress("event", event(4, False, accuracy=0.5))  # resumed at the fifth task; too soon for a line
        clock[0] += 3
        progress("event", event(4, True, accuracy=0.875))
        clock[0] += 11
        progress("event", event(5, False))
    lines = [line.split("] ", 1)[1] for line in capsys.readouterr().out.splitlines()]
    compiling, compiled, ended, so_far = lines
    assert all(line.startswith("toe, seed 0: ") for line in lines)
    assert "compiling" in compiling
    assert "50 s" in compiled
    for fact in ("task 5 of 8 (red)", "mastered", "step 5", "8 labels", "4 shots", "accuracy 0.88", "1,234 labels"):
        assert fact in ended
    assert ended.endswith("30 s left"), "one of four tasks took 10 seconds"
    assert "task 6 of 8 (red)" in so_far
    assert "loss 1.500" in so_far
    assert so_far.endswith("63 s left")


def test_pretraining_shows_a_loss_only_where_there_is_one(
    experiment: Experiment, clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(experiment) as progress:
        for train in ({"loss": 0.25}, {}):
            clock[0] += 20
            progress("event", Pretraining(train=train))
    learned, idle = capsys.readouterr().out.splitlines()
    assert learned.endswith("pretraining: loss 0.250")
    assert "loss" not in idle
    assert "nan" not in idle


def test_offline_lines_have_step_and_score(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    experiment = make_experiment("sinusoid-offline", "maml")
    with Progress(experiment) as progress:
        clock[0] += 20
        progress("event", Trial(step=250, score=-0.5, better=True, ended=False))
        progress("event", Trial(step=5000, score=-0.75, better=False, ended=True))
        progress("testing", 20)
    first, last, testing = capsys.readouterr().out.splitlines()
    assert "step 250 of 5,000: validation score -0.500 (the best so far)" in first
    assert "6 min left" in first
    assert "step 5,000 of 5,000: validation score -0.750" in last
    assert "20 unseen tasks" in testing


def test_a_terminal_gets_one_live_line(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {}
    for name, changes in {"plain": {"NO_COLOR": "1"}, "coloured": {}, "dumb": {"TERM": "dumb"}}.items():
        with monkeypatch.context() as patch:
            for variable in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
                patch.delenv(variable, raising=False)
            for variable, value in ({"TERM": "xterm-256color", "COLUMNS": "100"} | changes).items():
                patch.setenv(variable, value)
            patch.setattr(sys, "stdout", Terminal())
            with Progress(experiment, left=lambda fraction: 100 * (1 - fraction)) as progress:
                progress("compiling", None)
                progress("event", event(2, True, accuracy=0.875))
            shown[name] = sys.stdout.getvalue()  # type: ignore[attr-defined]
    for name in ("plain", "coloured"):
        last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown[name]).splitlines()[-1]
        assert re.match(r"toe, seed 0 .*3/8 tasks, 4 shots, accuracy 0.88, 1,234 labels.*83 s left", last.strip())
    colour = re.compile(r"\x1b\[[0-9;]*([39][0-7]|38;)[0-9;]*m")
    assert colour.search(shown["coloured"])
    assert not colour.search(shown["plain"])
    assert "\x1b" not in shown["dumb"]
    assert "task 3 of 8" in shown["dumb"]


def test_quiet_is_quiet(
    experiment: Experiment, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for where in (sys.stdout, Terminal()):
        monkeypatch.setattr(sys, "stdout", where)
        with Progress(experiment, quiet=True) as progress:
            progress("compiling", None)
            progress("event", event(2, True))
    assert where.getvalue() == ""  # type: ignore[union-attr]
    assert capsys.readouterr().out == ""
