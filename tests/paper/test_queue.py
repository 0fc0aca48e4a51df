"""`python -m paper TARGET`: the queue of runs and the summaries it keeps, with a stand-in for the workers of sweeps."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anyshot.sweeps import local, running
from anyshot.sweeps.progress import describe_progress
from paper import __main__ as command
from paper.jobs import Job, list_jobs
from paper.results import read_results
from paper.targets import Label, find_tables
from tests.paper import fake_worker
from tests.paper.made import make_experiment

pytestmark = pytest.mark.medium

ROOT = Path(__file__).parents[2]
Paper = Callable[..., int]


def fake(targets: str, **behaviour: str) -> str:
    """What the environment variable FAKE holds for the runs of some targets; `behaviour` by folder with _ for -."""
    jobs = list_jobs([table for target in targets.split() for table in find_tables(target)], 1)
    records = {job.trial.candidate.name: make_experiment(job).model_dump(mode="json") for job in jobs}
    return json.dumps({"records": records} | {name.replace("_", "-"): how for name, how in behaviour.items()})


@pytest.fixture
def paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paper:
    """Runs the command in an empty folder, with --out r and --results kept, and returns its exit code."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(local, "WORKER", (sys.executable, fake_worker.__file__))
    monkeypatch.setattr(running, "POLL_SECONDS", 0.02)

    def run(words: str, **behaviour: str) -> int:
        target, *rest = words.split()
        monkeypatch.setenv("FAKE", fake(target, **behaviour) if target in command.describe_targets() else "{}")
        monkeypatch.setattr(sys, "argv", ["paper", target, "--out", "r", "--results", "kept", *rest])
        try:
            command.main()
        except SystemExit as end:
            return int(end.code or 0)
        return 0

    return run


def read(path: str) -> dict[str, Any]:
    content = json.loads(Path(path).read_text())
    assert isinstance(content, dict)
    return content


def test_what_is_missing_is_run_and_what_is_there_is_not(
    paper: Paper, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert paper("a-gem --seeds 1 --parallel 2") == 0
    assert re.search(r"\| ftml-vs \| 4,484\.7 ± 113\.8 \| 28\.0 \| 1 \| 0\.01 \|", capsys.readouterr().out)
    found = read("kept/rainbow-mnist/a-gem-s0.json")
    assert (found["format"], found["preset"], found["label"]) == (2, "rainbow-mnist", "a-gem")
    assert found["experiment"]["learner"]["name"] == "a-gem"
    assert found["environment"] == {"device": "abacus"}
    assert [wall["at_once"] for wall in found["wall"]] == [2]
    assert found["outcome"]["totals"] == {
        "cumulative_loss": 20.0,
        "constant_loss": None,
        "labels": 20,
        "test_labels": 200,
        "steps": 20,
        "mastered": 0,
        "evaluations": 4,
    }
    assert found["outcome"]["cumulative_loss"] == [10.0, 20.0]
    assert found["outcome"]["loss_by_shots"] == {"shots": [0, 5], "all": [5.0, 5.0], "late": [5.0, 5.0]}
    assert found["outcome"]["rates"] == {}

    monkeypatch.setattr(local, "WORKER", ("false",))  # from here on nothing may be started
    before = Path("kept/rainbow-mnist/a-gem-s0.json").read_bytes()
    Path("kept/rainbow-mnist/a-gem-s0.json").unlink()
    assert paper("a-gem --seeds 1") == 0
    assert Path("kept/rainbow-mnist/a-gem-s0.json").read_bytes() == before
    Path("r").rename("gone")
    assert paper("a-gem --seeds 1") == 0
    assert not Path("r").exists()
    assert paper("a-gem --seeds 2") == 1


def test_a_run_that_fails_does_not_stop_the_others(paper: Paper, capsys: pytest.CaptureFixture[str]) -> None:
    assert paper("a-gem --seeds 1", a_gem_s0="fail") == 1
    printed = capsys.readouterr()
    assert "rainbow-mnist a-gem, seed 0: failed: the disk is full; make room\n" in printed.out
    assert "1 failed: rainbow-mnist a-gem, seed 0" in printed.err
    assert [path.name for path in Path("kept").glob("*/*")] == ["ftml-vs-s0.json"]


def test_a_summary_that_cannot_be_written_does_not_stop_the_others(
    paper: Paper, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file is in the place of one preset's folder; once it is gone, the runs that are there are not run again."""
    Path("kept").mkdir()
    Path("kept/rainbow-mnist-m10").touch()
    assert paper("ablation-m --seeds 1 --parallel 2") == 1
    said = capsys.readouterr().err
    assert all(
        name in said for name in ("2 failed", "rainbow-mnist-m10 ftml, seed 0", "rainbow-mnist-m10 ftml-vs, seed 0")
    )
    assert len([*Path("kept").glob("*/*.json")]) == 4
    Path("kept/rainbow-mnist-m10").unlink()
    monkeypatch.setattr(local, "WORKER", ("false",))
    assert paper("ablation-m --seeds 1") == 0
    assert len([*Path("kept").glob("*/*.json")]) == 6


@pytest.mark.parametrize("line", ["7", "[]", "{}", '{"position": 3}', '{"kind": "trial"}', '{"kind": "evalu'])
def test_progress_reads_over_damaged_lines(tmp_path: Path, line: str) -> None:
    job = Job("rainbow-mnist", "a-gem", 0)
    assert describe_progress(tmp_path) is None
    fake_worker.begin(tmp_path, make_experiment(job).model_dump(mode="json"), 0)
    with (tmp_path / "events.jsonl").open("a") as log:
        log.write(f"{line}\n")
    assert describe_progress(tmp_path) == "0 tasks, 0 labels"


def test_when_the_time_is_over_runs_save_and_go_on_later(
    paper: Paper, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting = Path("r/rainbow-mnist/ftml-vs-s0/waiting")
    later = SimpleNamespace(sleep=time.sleep, monotonic=lambda: time.monotonic() + 600 * waiting.exists())
    monkeypatch.setattr(running, "time", later)
    assert paper("a-gem --seeds 1 --max-minutes 9", ftml_vs_s0="wait") == 130
    assert "the time is over, 1 of 2 runs are left; go on with: python -m paper a-gem " in capsys.readouterr().err
    assert Path("r/rainbow-mnist/ftml-vs-s0/saved").read_text() == "asked\n"
    waiting.unlink()
    assert paper("a-gem --seeds 1 --max-minutes 9", ftml_vs_s0="wait") == 0
    assert "ftml-vs, seed 0: goes on after 0 tasks, 0 labels" in capsys.readouterr().out
    assert len(read("kept/rainbow-mnist/ftml-vs-s0.json")["wall"]) == 2, "the time of both processes"


PATCHED = """
import sys
from anyshot.sweeps import local
from paper import __main__
local.WORKER = (sys.executable, sys.argv.pop(1))
__main__.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_reaches_each_run_once(number: signal.Signals, tmp_path: Path) -> None:
    words = [sys.executable, "-c", PATCHED, fake_worker.__file__, "a-gem", "--seeds", "1", "--out", "r"]
    with subprocess.Popen(
        [*words, "--results", "kept"],
        cwd=tmp_path,
        env=os.environ | {"FAKE": fake("a-gem", ftml_vs_s0="wait"), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        until = time.monotonic() + 60
        while not (tmp_path / "r/rainbow-mnist/ftml-vs-s0/waiting").exists():
            assert time.monotonic() < until
            time.sleep(0.02)
        if number == signal.SIGINT:  # which a terminal sends to all processes of a command
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        _, printed = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "1 of 2 runs are left; go on with: python -m paper a-gem --seeds 1" in printed
    assert (tmp_path / "r/rainbow-mnist/ftml-vs-s0/saved").read_text() == "asked\n"
    assert (tmp_path / "kept/rainbow-mnist/a-gem-s0.json").exists()


def test_ctrl_c_again_ends_a_run_that_does_not_stop(paper: Paper) -> None:
    def interrupt_twice() -> None:
        until = time.monotonic() + 20
        while not Path("r/rainbow-mnist/a-gem-s0/waiting").exists() and time.monotonic() < until:
            time.sleep(0.02)
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)

    threading.Thread(target=interrupt_twice, daemon=True).start()
    started = time.monotonic()
    assert paper("a-gem --seeds 1", a_gem_s0="stubborn") == 130
    assert time.monotonic() - started < 30
    assert not Path("r/rainbow-mnist/ftml-vs-s0").exists()


def test_offline_runs(paper: Paper, capsys: pytest.CaptureFixture[str]) -> None:
    assert paper("omniglot --seeds 1 --parallel 3") == 0
    assert "| maml-vs | 1-shot | 90.94 ± 0.12 | 51.00 | 1 | 0.56 | 400 |" in capsys.readouterr().out
    outcome = read("kept/omniglot-50way/maml-s0.json")["outcome"]
    assert (outcome["steps"], outcome["best_step"], len(outcome["tests"])) == (400, 400, 3)
    rows = read_results(Path("kept")).rows("omniglot-50way", "maml")
    assert rows.loc[0, ["1-shot", "2-shot", "5-shot"]].tolist() == pytest.approx([51, 52, 55])


def test_settings_of_a_label_reach_the_run(paper: Paper) -> None:
    assert paper("first-step-0.3 --seeds 1 --parallel 2") == 0
    found = read("kept/rainbow-mnist/learned-constant-0.3-s0.json")["experiment"]["learner"]
    assert (found["name"], found["hyperparameters"]["inner_rate"]) == ("ftml-learned-constant", 0.3)
    assert paper("short-tasks --seeds 1 --parallel 2") == 0
    protocol = read("kept/rainbow-mnist/ftml-vs-short-s0.json")["experiment"]["protocol"]
    assert (protocol["max_steps"], protocol["updates_per_step"]) == (100, 5)


def test_another_experiment_in_the_folder_is_not_taken_for_the_run(tmp_path: Path) -> None:
    job, other = Job("rainbow-mnist", "a-gem", 0), Job("rainbow-mnist-m10", "a-gem", 0)
    fake_worker.finish(job.folder(tmp_path), make_experiment(other).model_dump(mode="json"), 0)
    assert not job.finished(tmp_path)
    fake_worker.finish(job.folder(tmp_path), make_experiment(job).model_dump(mode="json"), 1)
    assert not job.finished(tmp_path)
    fake_worker.finish(job.folder(tmp_path), make_experiment(job).model_dump(mode="json"), 0)
    assert job.finished(tmp_path)
    (job.folder(tmp_path) / "events.jsonl").write_text("")
    assert not job.finished(tmp_path)


def test_the_plan_starts_nothing_and_says_what_is_there(
    paper: Paper, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert paper("a-gem --seeds 1") == 0
    begun = Job("rainbow-mnist", "a-gem", 1)
    fake_worker.begin(begun.folder(Path("r")), make_experiment(begun).model_dump(mode="json"), 1)
    monkeypatch.setattr(local, "WORKER", ("false",))
    capsys.readouterr()
    assert paper("a-gem --seeds 2 --plan") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    states = {(row[1], row[3]): row[5] for row in rows if row[:1] == ["rainbow-mnist"]}
    assert states == {
        ("a-gem,", "0"): "there:",
        ("ftml-vs,", "0"): "there:",
        ("a-gem,", "1"): "begun:",
        ("ftml-vs,", "1"): "to",
    }
    assert rows[-1][:5] == ["2", "of", "4", "runs", "left:"]


def test_runs_for_a_gpu_and_for_a_cpu_are_all_runs(paper: Paper, capsys: pytest.CaptureFixture[str]) -> None:
    def planned(runs: str) -> list[str]:
        assert paper(f"less-regret-pose --seeds 1 --runs {runs} --plan") == 0
        return re.findall(r"^pose (\S+),", capsys.readouterr().out, re.MULTILINE)

    assert planned("cpu") == ["scratch", "scratch-kernel"]
    assert {"anyshot", "ftml", "toe"} <= set(planned("gpu"))
    assert sorted(planned("cpu") + planned("gpu")) == sorted(planned("all"))


def test_finished_runs_made_elsewhere_are_collected(paper: Paper, capsys: pytest.CaptureFixture[str]) -> None:
    """Also those whose label has several forms, and without touching what is there already."""
    label = Label(learner="ftml-vs", settings={"learner.inner_rate": 0.03, "learner.eta": 1e6}, method="x")
    job = Job("rainbow-mnist", "learned-constant-0.03", 5)
    fake_worker.finish(Path("r/any/name"), make_experiment(job, label).model_dump(mode="json"), 5)
    stranger = Label(learner="ftml-vs", settings={"learner.inner_rate": 0.77}, method="x")
    fake_worker.finish(Path("r/any/other"), make_experiment(job, stranger).model_dump(mode="json"), 5)
    half = Job("rainbow-mnist", "toe", 0)
    fake_worker.begin(Path("r/any/half"), make_experiment(half).model_dump(mode="json"), 0)
    assert paper("collect") == 0
    assert [path.name for path in Path("kept").glob("*/*")] == ["learned-constant-0.03-s5.json"]
    kept = Path("kept/rainbow-mnist/learned-constant-0.03-s5.json")
    before = kept.stat().st_mtime_ns
    assert paper("collect") == 0
    assert kept.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("a-gem --seeds 0", "--seeds"),
        ("a-gem --seeds 101", "--seeds"),
        ("a-gem --parallel 0", "--parallel"),
        ("a-gem --max-minutes 0", "--max-minutes"),
        ("a-gem --max-minutes nan", "--max-minutes"),
        ("document", "--results"),
    ],
)
def test_bad_arguments_are_refused_by_name(
    paper: Paper, capsys: pytest.CaptureFixture[str], words: str, name: str
) -> None:
    assert paper(words) == 2
    assert name in capsys.readouterr().err
    assert not Path("r").exists()


def test_an_unknown_target_is_refused(paper: Paper, capsys: pytest.CaptureFixture[str]) -> None:
    assert paper("table-9") == 2
    assert "table-9" in capsys.readouterr().err
