"""The demo from start to report at a tiny size, what it says about the numbers, and how progress is told."""

from __future__ import annotations

import io
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anyshot import cli
from anyshot.cli import demo, progress
from anyshot.online.ledger import Ledger
from anyshot.report.online_comparison import Comparison, Row
from anyshot.report.online_runs import Group
from anyshot.report.spread import Spread
from anyshot.report.verdict import against, verdict
from anyshot.runs.experiment import Experiment
from anyshot.runs.offline_experiment import OfflineExperiment
from anyshot.runs.offline_presets import offline_preset
from anyshot.runs.presets import preset
from anyshot.runs.reading import read_events

USUAL = preset("rainbow-digits")
SINES = preset("sinusoid")
TINY = SINES.model_copy(
    update={
        "network": replace(SINES.network, hidden=(4,)),
        "protocol": replace(SINES.protocol, tasks=5, max_steps=10, threshold=3.0, tasks_per_update=2, validation=4),
    }
)


def cells(text: str, learner: str) -> list[str]:
    """The table's row of a learner: labels, mastered, loss, zero-shot loss."""
    (line,) = re.findall(rf"^{learner} +2 .*$", text, re.MULTILINE)
    return re.split(r"  +", line)[2:]


def test_the_table_has_the_ledgers_numbers_and_a_second_call_runs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "LEARNERS", ("toe", "ftml-vs"))  # each one compiles
    monkeypatch.setattr("anyshot.report.page.rendered", lambda figure, form: b"drawn")  # seconds each, and tested
    out = tmp_path / "new" / "demo"
    demo.show(TINY, out, 2, quiet=False)
    told = capsys.readouterr().out
    assert "toe, ftml-vs on the same 2 streams of sinusoid; starting JAX" in told.splitlines()[0]
    assert "ftml-vs, seed 1: compiled in" in told
    for learner in ("toe", "ftml-vs"):
        ledgers = [Ledger.of(read_events(out / "runs" / f"{learner}-{seed}"), 100) for seed in (0, 1)]
        last = [[task.zero_shot_loss for task in ledger.tasks[-2:]] for ledger in ledgers]
        wanted = [
            (0, [ledger.labels for ledger in ledgers]),
            (1, [ledger.mastered for ledger in ledgers]),
            (1, [ledger.cumulative_loss for ledger in ledgers]),
            (3, np.mean(np.array(last, float), axis=1)),
        ]
        found = cells(told, learner)
        assert found == [f"{np.mean(v):,.{d}f} ± {np.std(v, ddof=1):,.{d}f}" for d, v in wanted]
    assert "zero-shot loss, last 2 tasks" in told
    assert "this is a hint, not a proof." in told
    assert told.endswith(f"\nreport with figures: {out / 'report.html'}\n")
    page = (out / "report.html").read_text("utf-8")
    assert page.count("data:image/png;base64,") == 1
    assert list((out / "report_files").glob("*-tasks.png"))
    assert "Contact sheet: some tasks of sinusoid" in page

    logs = {log: log.stat().st_mtime_ns for log in out.glob("runs/*/events.jsonl")}
    assert len(logs) == 4
    demo.show(TINY, out, 2, quiet=True)
    again = capsys.readouterr().out
    assert again.startswith("\n5 tasks, mean ± standard deviation")
    assert again in told
    assert {log: log.stat().st_mtime_ns for log in logs} == logs


GROUP = Group("", SINES, (), (), ())


def row(learner: str, labels: Spread, loss: Spread, seeds: int) -> Row:
    none = Spread(0.0, None)
    return Row(learner, tuple(range(seeds)), loss, labels, none, none, (), None, None)


def test_the_verdict_claims_no_more_than_the_spread_allows() -> None:
    rows = (
        row("toe", Spread(200.0, 10.0), Spread(30.0, 1.0), 3),
        row("ftml", Spread(110.0, 11.0), Spread(10.0, 0.5), 3),
        row("ftml-vs", Spread(100.0, 2.0), Spread(10.0, 0.5), 3),
    )
    told = verdict(Comparison(GROUP, "toe", rows))
    assert told == (
        "ftml-vs needed the fewest labels (9 % fewer than ftml, which is within the spread over seeds and may be "
        "chance, 50 % fewer than toe); ftml had the lowest cumulative loss (the same as ftml-vs, 67 % less than toe)."
    )
    assert "chance" not in against(Spread(100.0, 2.0), Spread(110.0, 9.9), "ftml", "fewer")
    one = (row("toe", Spread(9.0, None), Spread(3.0, None), 1), row("ftml", Spread(8.0, None), Spread(2.0, None), 1))
    assert verdict(Comparison(GROUP, "toe", one)).endswith("; with 1 seed this is a hint, not a proof.")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--seeds 0", "--seeds must be 1 to 20, got 0"),
        ("--seeds 21", "--seeds must be 1 to 20, got 21"),
        ("--out file", "--out must be a folder that can be written to, file is not: "),
        ("--out file/report", "--out must be a folder that can be written to, file/report is not: "),
    ],
)
def test_nonsense_is_answered_with_one_sentence(
    words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    monkeypatch.setattr(sys, "argv", ["anyshot", "demo", *words.split()])
    with pytest.raises(SystemExit) as end:
        cli.main()
    told = capsys.readouterr()
    assert (end.value.code, told.out, told.err.count("\n")) == (2, "", 1)
    assert said in told.err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_ctrl_c_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*given: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("anyshot.runs.online.run_online", interrupted)
    monkeypatch.setattr(sys, "argv", ["anyshot", "demo", "--out", str(tmp_path / "a b"), "--seeds", "3", "--quiet"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 130
    again = f"anyshot demo --out '{tmp_path / 'a b'}' --seeds 3"
    assert capsys.readouterr().err == f"anyshot: interrupted; what is done is kept, go on with: {again}\n"


# Progress


def event(position: int, ended: bool, **more: Any) -> dict[str, Any]:
    news = {"position": position, "task": "red", "step": 5, "labels": 8, "shots": 4, "loss": 1.5, "mastered": ended}
    return news | {"ended": ended, "total_loss": 9.25, "total_labels": 1234} | more


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def test_plain_lines_tell_task_shots_labels_and_time_left(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with progress.Progress("ftml, seed 0", 8) as watch:
        watch("compiling", {})
        clock[0] += 50
        watch("compiled", {"seconds": 50.0})
        clock[0] += 7
        watch("evaluated", event(4, False, accuracy=0.5))  # resumed at the fifth task; too soon for a line
        clock[0] += 3
        watch("evaluated", event(4, True, accuracy=0.875))
        clock[0] += 11
        watch("evaluated", event(5, False))
    compiling, compiled, ended, so_far = [line.split("] ", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert compiling == "ftml, seed 0: compiling (10 to 60 seconds the first time)"
    assert compiled == "ftml, seed 0: compiled in 50 s"
    assert ended == (
        "ftml, seed 0: task 5 of 8 (red): mastered at step 5 with 8 labels, 4 shots, accuracy 0.88; in all 1,234 "
        "labels, loss 9.2; about 30 s left"
    )
    assert "task 6 of 8 (red): so far at step 5 with 8 labels, 4 shots, loss 1.500;" in so_far
    assert so_far.endswith("about 63 s left")


def test_a_terminal_gets_one_live_line(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {}
    for name, changes in {"plain": {"NO_COLOR": "1"}, "coloured": {}, "dumb": {"TERM": "dumb"}}.items():
        with monkeypatch.context() as patch:
            for variable in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
                patch.delenv(variable, raising=False)
            for variable, value in ({"TERM": "xterm-256color", "COLUMNS": "100"} | changes).items():
                patch.setenv(variable, value)
            patch.setattr(sys, "stdout", Terminal())
            with progress.Progress("ftml, seed 0", 8, left=lambda fraction: 100 * (1 - fraction)) as watch:
                watch("compiling", {})
                watch("evaluated", event(2, True, accuracy=0.875))
            shown[name] = sys.stdout.getvalue()  # type: ignore[attr-defined]
    for name in ("plain", "coloured"):
        last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown[name]).splitlines()[-1]
        assert re.match(r"ftml, seed 0 .*3/8 tasks, 4 shots, accuracy 0.88, 1,234 labels, 83 s left", last.strip())
    colour = re.compile(r"\x1b\[[0-9;]*([39][0-7]|38;)[0-9;]*m")
    assert colour.search(shown["coloured"])
    assert not colour.search(shown["plain"])
    assert "\x1b" not in shown["dumb"]
    assert "task 3 of 8" in shown["dumb"]


def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for where in (sys.stdout, Terminal()):
        monkeypatch.setattr(sys, "stdout", where)
        with progress.Progress("ftml, seed 0", 8, quiet=True) as watch:
            watch("compiling", {})
            watch("evaluated", event(2, True))
    assert where.getvalue() == ""  # type: ignore[union-attr]
    assert capsys.readouterr().out == ""


# What a run will need


def test_the_estimate_is_near_what_was_measured() -> None:
    """Milliseconds a step on two idle cores, and megabytes by XLA's own account, of rainbow-digits."""
    from anyshot.cli.estimate import CPU, estimate

    experiment = Experiment(USUAL, "ftml-vs", 0)
    tasks = experiment.load_tasks()
    meta, plain = estimate(experiment, tasks), estimate(replace(experiment, learner="toe"), tasks)
    assert meta.steps == plain.steps == 56 * 150
    assert meta.task_set == pytest.approx(14.7e6, rel=0.02)
    assert meta.step[CPU] == pytest.approx(5.5e-3, rel=1 / 3)
    assert plain.step[CPU] == pytest.approx(1.1e-3, rel=1 / 3)
    assert meta.working[CPU] == pytest.approx(6.0e6, rel=1 / 3)
    mann = estimate(OfflineExperiment(offline_preset("rainbow-digits-offline"), "mann", 0), tasks)
    maml = estimate(OfflineExperiment(offline_preset("rainbow-digits-offline"), "maml", 0), tasks)
    assert maml.steps == mann.steps == 1000
    assert 13e-3 / 3 < maml.step[CPU] < 13e-3 * 3, "measured, with its trials, on two cores that others used too"
    assert mann.step[CPU] < maml.step[CPU]
    half = USUAL.model_copy(update={"protocol": replace(USUAL.protocol, tasks=28)})
    assert estimate(Experiment(half, "toe", 0), tasks).steps == 28 * 150


def test_a_dry_run_tells_what_is_needed_or_why_not(no_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from anyshot.cli import offline, run

    run.main(["sinusoid", "--out", str(no_data / "run"), "--dry-run"])
    told = capsys.readouterr().out
    assert re.search(
        r"memory: 1 MB for the task set, and for a step about 1 MB on two CPU cores, 1 MB on an H200", told
    )
    assert re.search(
        r"time: 10,000 steps at most, about \d+ s on two CPU cores \([\d.]+ ms a step\), \d+ s on an", told
    )
    offline.main(["sinusoid-offline", "--out", str(no_data / "run"), "--dry-run"])
    told = capsys.readouterr().out
    assert "at most 5,000 meta-updates of 25 tasks, 20 trials, then the test" in told
    assert re.search(r"time: 5,000 steps at most, .* the test and compiling come on top", told)
    run.main(["rainbow-mnist", "--out", str(no_data / "run"), "--dry-run"])
    assert "not known before the data is here; anyshot data fetch rainbow-mnist" in capsys.readouterr().out
    assert not (no_data / "run").exists()
