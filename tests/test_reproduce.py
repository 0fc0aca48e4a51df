"""`anyshot reproduce`: the queue of runs, the summaries, the arithmetic beside the paper, and the document."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fake_anyshot
import pytest

from anyshot.cli import main
from anyshot.errors import DataError
from anyshot.learners.names import LEARNERS, OFFLINE_LEARNERS
from anyshot.reproduction import queue
from anyshot.reproduction.answers import answers, far_off
from anyshot.reproduction.cost import STEP_TIMES, minutes, most_steps, step_ms
from anyshot.reproduction.document import generated
from anyshot.reproduction.figures import digest, drawn, named
from anyshot.reproduction.jobs import Job, jobs_of
from anyshot.reproduction.ordering import pair, pairs
from anyshot.reproduction.results import Results, read_results
from anyshot.reproduction.sections import section
from anyshot.reproduction.step_sizes import learned
from anyshot.reproduction.table import Table
from anyshot.reproduction.targets import TARGETS, every_table, tables_of, target_names
from anyshot.runs.offline_presets import OFFLINE_PRESETS
from anyshot.runs.presets import PRESETS

ROOT = Path(__file__).parent.parent

# The queue


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(queue, "ANYSHOT", (sys.executable, fake_anyshot.__file__))
    monkeypatch.setattr(queue, "LOOK", 0.02)
    return tmp_path


def reproduce(monkeypatch: pytest.MonkeyPatch, words: str, **fake: str) -> int:
    """Run the command; `fake` says how the runs behave, by folder with _ for -."""
    monkeypatch.setenv("FAKE", json.dumps({name.replace("_", "-"): how for name, how in fake.items()}))
    monkeypatch.setattr(sys, "argv", ["anyshot", "reproduce", *words.split()])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def once_there(path: Path, *signals: signal.Signals) -> None:
    """Send this process signals, with a pause between them, once a file is there."""

    def send() -> None:
        until = time.monotonic() + 20
        while not path.exists() and time.monotonic() < until:
            time.sleep(0.02)
        for number in signals:
            os.kill(os.getpid(), number)
            time.sleep(0.3)

    threading.Thread(target=send, daemon=True).start()


def test_what_is_missing_is_run_and_what_is_there_is_not(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce(monkeypatch, "a-gem --seeds 1 --parallel 2") == 0
    told = capsys.readouterr().out
    assert "0 of 2 runs are there, 2 to run" in told
    assert "2 tasks, 20 labels" in told
    assert re.search(r"ftml-vs +4,484\.7 ± 113\.8 +28\.0 +1 +0\.01", told), told
    kept = here / "runs/reproduce/results/rainbow-mnist"
    found = json.loads((kept / "a-gem-s0.json").read_text())
    assert (found["title"], found["learner"], found["totals"]["labels"]) == ("rainbow-mnist", "a-gem", 20)
    assert found["cumulative_loss"] == [10.0, 20.0]
    assert found["loss_by_shots"] == {"shots": [0, 5], "all": [5.0, 5.0], "late": [5.0, 5.0]}
    assert found["rates"] == {}
    assert found["environment"] == {"device": "abacus"}
    assert [one["at_once"] for one in found["wall"]] == [2]

    monkeypatch.setattr(queue, "ANYSHOT", ("false",))  # from here on nothing may be started
    (kept / "a-gem-s0.json").unlink()
    assert reproduce(monkeypatch, "a-gem --seeds 1") == 0
    assert "rainbow-mnist a-gem, seed 0: was finished; summary:" in capsys.readouterr().out
    (here / "results").mkdir()
    kept.rename(here / "results/rainbow-mnist")
    assert reproduce(monkeypatch, "a-gem --seeds 1 --out elsewhere") == 0
    assert not (here / "elsewhere").exists()
    assert reproduce(monkeypatch, "a-gem --seeds 2 --out elsewhere") == 1


def test_a_run_that_fails_does_not_stop_the_others(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce(monkeypatch, "a-gem --seeds 1", a_gem_s0="fail") == 1
    told = capsys.readouterr()
    assert "a-gem, seed 0: failed with exit code 1: anyshot: the disk is full; make room\n" in told.out
    assert told.err.startswith("anyshot: 1 failed: rainbow-mnist a-gem, seed 0; ")
    assert [path.name for path in here.rglob("results/*/*")] == ["ftml-vs-s0.json"]


def test_a_summary_that_cannot_be_kept_does_not_stop_the_others(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file in the place of one table's folder; once it is gone, the run that is there is not run again."""
    (here / "results").mkdir()
    (here / "results/rainbow-mnist-m10").touch()
    assert reproduce(monkeypatch, "ablation-m --seeds 1") == 1
    told = capsys.readouterr()
    assert "rainbow-mnist-m10 ftml, seed 0: its summary could not be kept: " in told.out
    assert told.err.startswith("anyshot: 2 failed: rainbow-mnist-m10 ftml, seed 0, rainbow-mnist-m10 ftml-vs, seed 0; ")
    assert len([*here.glob("results/*/*.json")]) == 4
    assert reproduce(monkeypatch, "ablation-m --seeds 2") == 1, "and it goes on with others the next time, too"
    assert "was finished, but its summary could not be kept: " in capsys.readouterr().out
    assert len([*here.glob("results/*/*.json")]) == 8
    (here / "results/rainbow-mnist-m10").unlink()
    monkeypatch.setattr(queue, "ANYSHOT", ("false",))
    assert reproduce(monkeypatch, "ablation-m --seeds 2") == 0
    assert len([*here.glob("results/*/*.json")]) == 12


@pytest.mark.parametrize(
    "line", ["7", "[]", "{}", '{"position": 3}', '{"step": "far"}', '{"position": null, "step": 1}']
)
def test_a_plan_reads_over_odd_lines(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    folder = here / "r/rainbow-mnist/a-gem-s0"
    fake_anyshot.begin(folder, "rainbow-mnist", "a-gem", 0)
    with (folder / "events.jsonl").open("a") as log:
        log.write(f"{line}\n")
    assert reproduce(monkeypatch, "a-gem --seeds 1 --out r --plan") == 0
    assert "half done: 0 tasks, 0 labels" in capsys.readouterr().out


def test_when_the_time_is_over_runs_save_and_go_on_later(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "a-gem --seeds 1 --out r --max-minutes 9"
    waiting = here / "r/rainbow-mnist/ftml-vs-s0/waiting"
    later = SimpleNamespace(sleep=time.sleep, monotonic=lambda: time.monotonic() + 600 * waiting.exists())
    monkeypatch.setattr(queue, "time", later)
    assert reproduce(monkeypatch, words, ftml_vs_s0="wait") == 130
    told = capsys.readouterr().err
    assert told.startswith("anyshot: the time is over; 1 of 2 runs are left; go on with: anyshot reproduce a-gem ")
    assert (here / "r/rainbow-mnist/ftml-vs-s0/saved").read_text() == "asked\n"
    waiting.unlink()
    assert reproduce(monkeypatch, words, ftml_vs_s0="wait") == 0
    told = capsys.readouterr().out
    assert "1 of 2 runs are there, 1 to run" in told
    assert "ftml-vs, seed 0: goes on after 0 tasks, 0 labels" in told
    found = json.loads((here / "r/results/rainbow-mnist/ftml-vs-s0.json").read_text())
    assert len(found["wall"]) == 2, "the time of both processes"


PATCHED = """
import sys
from anyshot.cli import main
from anyshot.reproduction import queue
queue.ANYSHOT = (sys.executable, sys.argv.pop(1))
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_reaches_each_run_once(number: signal.Signals, tmp_path: Path) -> None:
    words = [sys.executable, "-c", PATCHED, fake_anyshot.__file__, "reproduce", "a-gem", "--seeds", "1", "--out", "r"]
    with subprocess.Popen(
        words,
        cwd=tmp_path,
        env=os.environ | {"FAKE": '{"ftml-vs-s0": "wait"}'},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        until = time.monotonic() + 30
        while not (tmp_path / "r/rainbow-mnist/ftml-vs-s0/waiting").exists():
            assert time.monotonic() < until
            time.sleep(0.02)
        if number == signal.SIGINT:  # which a terminal sends to all processes of a command
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        _, told = process.communicate(timeout=30)
    assert process.returncode == 130
    assert told.startswith("anyshot: interrupted; 1 of 2 runs are left; go on with: anyshot reproduce a-gem --seeds 1")
    assert (tmp_path / "r/rainbow-mnist/ftml-vs-s0/saved").read_text() == "asked\n"
    assert (tmp_path / "r/results/rainbow-mnist/a-gem-s0.json").exists()


def test_ctrl_c_again_ends_a_run_that_does_not_stop(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once_there(here / "r/rainbow-mnist/a-gem-s0/waiting", signal.SIGINT, signal.SIGINT)
    started = time.monotonic()
    assert reproduce(monkeypatch, "a-gem --seeds 1 --out r", a_gem_s0="stubborn") == 130
    assert time.monotonic() - started < 20
    assert not (here / "r/rainbow-mnist/ftml-vs-s0").exists()


def test_offline_runs(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce(monkeypatch, "omniglot --seeds 1 --parallel 3 --results kept") == 0
    assert re.search(r"maml-vs +1-shot +90\.94 ± 0\.12 +51\.00 +1 +0\.56 +400", capsys.readouterr().out)
    found = json.loads((here / "kept/omniglot-50way/maml-s0.json").read_text())
    assert (found["steps"], found["best_step"], len(found["test"])) == (400, 400, 3)
    assert read_results(here / "kept").of("omniglot-50way", "maml")[0].values == pytest.approx((51, 52, 55))


def test_another_experiment_in_the_folder_is_not_taken_for_the_run(here: Path) -> None:
    fake_anyshot.finish(Path("r/rainbow-mnist/a-gem-s0"), "rainbow-mnist-m10", "a-gem", 0)
    assert not Job("rainbow-mnist", "a-gem", 0).finished(Path("r"))
    fake_anyshot.finish(Path("r/rainbow-mnist/a-gem-s0"), "rainbow-mnist", "a-gem", 0)
    assert Job("rainbow-mnist", "a-gem", 0).finished(Path("r"))


# The plan


def test_the_plan_needs_no_jax(tmp_path: Path) -> None:
    fake_anyshot.begin(tmp_path / "r/rainbow-mnist/ftml-s1", "rainbow-mnist", "ftml", 1)
    program = "import sys; from anyshot.cli import main; main(); assert 'jax' not in sys.modules, 'JAX was imported'"
    (tmp_path / "results/rainbow-mnist").mkdir(parents=True)
    shutil.copy(ROOT / "results/rainbow-mnist/ftml-s1.json", tmp_path / "results/rainbow-mnist")
    words = ["reproduce", "ablation-m", "--plan", "--out", str(tmp_path / "r"), "--results", str(tmp_path / "results")]
    ran = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
    assert re.search(r"rainbow-mnist-m10 ftml-vs, seed 2 +112,000 +\d+ +to run", ran.stdout)
    assert re.search(r"rainbow-mnist ftml, seed 1 +112,000 +0 +there: \S+/ftml-s1\.json", ran.stdout)
    assert re.search(r"17 of 18 runs left: about \d+ minutes on an H200 one after another", ran.stdout)


def test_estimates_are_near_what_runs_took() -> None:
    """Minutes of a run in which seven shared an H200: FTML-VS and TOE on pose."""
    for learner, took in {"ftml-vs": 3.3, "toe": 0.7}.items():
        seven = [Job("pose", learner, seed) for seed in range(7)]
        assert took / 2 < minutes(seven, Results([]), 7) < 2 * took
    assert step_ms(Job("rainbow-mnist-borrow", "protonet", 0), 1) < step_ms(Job("rainbow-mnist", "ftml-vs", 0), 1)
    nine = [Job("rainbow-mnist", "ftml-vs", seed) for seed in range(9)]
    assert minutes(nine, Results([]), 4) < minutes(nine, Results([]), 1)
    assert most_steps("contextual-miniimagenet") == 60 * 1400 + 2000


# The targets


@pytest.mark.parametrize("name", every_table())
def test_targets_are_of_presets_and_learners_there_are(name: str) -> None:
    table = every_table()[name]
    assert table.preset in (OFFLINE_PRESETS if table.offline else PRESETS)
    assert table.preset in STEP_TIMES
    assert set(table.paper) <= set(OFFLINE_LEARNERS if table.offline else LEARNERS)
    assert {len(numbers) for numbers in table.paper.values()} in ({len(table.columns)}, {0})
    assert {one for both in table.better for one in both} <= set(table.paper)
    assert tables_of(name) == (table,)
    assert name in target_names()


def test_a_run_that_two_tables_share_is_run_once() -> None:
    every = [table for target in TARGETS.values() for table in target.tables]
    jobs = jobs_of(every, 3)
    assert len(jobs) == len(set(jobs))


def test_what_cannot_be_run_says_why(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ("a-gem --seeds 0", "a-gem --parallel 0", "a-gem --max-minutes 0", "document"):
        assert reproduce(monkeypatch, words) == 2
        assert re.fullmatch(r"anyshot: --\S+ must .+\n", capsys.readouterr().err)


# The arithmetic


def write_summary(results: Path, preset: str, learner: str, losses: list[float], changes: Any = ()) -> None:
    for seed, loss in enumerate(losses):
        settings = PRESETS[preset][0].model_dump(mode="json")
        totals = {"cumulative_loss": loss, "labels": 100 * (seed + 1), "steps": 1000, "mastered": 3}
        found = {"title": preset, "learner": learner, "seed": seed, "fingerprint": "f00", "settings": settings}
        found |= {"environment": {"device": "abacus"}, "totals": totals, "cumulative_loss": [loss / 2, loss]}
        found |= dict(changes)
        path = results / preset / f"{learner}-s{seed}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found))


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """FTML-VS better than FTML by 100 to 102, and worse than TOE by 10 +- much; half of what the paper has."""
    write_summary(tmp_path, "pose", "ftml-vs", [50.0, 60.0, 70.0])
    write_summary(tmp_path, "pose", "ftml", [150.0, 161.0, 172.0])
    write_summary(tmp_path, "pose", "toe", [20.0, 60.0, 70.0])
    write_summary(tmp_path, "pose", "ftml-vl", [141.3])
    return tmp_path


def pose() -> Table:
    return tables_of("table-2-pose")[0]


def test_order_and_certainty_are_those_of_the_paired_differences(made: Path) -> None:
    results = read_results(made)
    found = {(one.first, one.second): one for one in pairs(pose(), results, 0)}
    assert len(found) == 10
    sure = found["ftml-vs", "ftml"]
    assert sure.ours is not None
    assert (sure.ours.mean, sure.wins, sure.seeds, sure.told) == (-101.0, 3, 3, "as in the paper, and sure")
    assert sure.share == pytest.approx(-303 / 483)
    assert sure.paper == pytest.approx(119.1 - 135.5)
    assert sure.within, "18.8 is the larger deviation"
    other = found["ftml-vs", "toe"]
    assert (other.wins, other.told) == (0, "the other way round, but may be chance")
    assert not other.within
    assert found["ftml-vs", "ftml-vl"].told == "as in the paper, on one seed, which proves nothing"
    assert found["ftml-vs", "ftml+meta-sgd"].told == "not run"
    back = pair(pose(), results, "ftml", "ftml-vs", 0, ordered=True)
    assert back.told == "the other way round, and sure"


def test_offline_more_is_better_and_a_tie_is_no_order() -> None:
    table = tables_of("omniglot")[0]
    first = {(one.first, one.second): one.ordered for one in pairs(table, Results([]), 0)}
    assert first == {("maml-vl", "maml"): True, ("maml", "maml-vs"): False, ("maml-vl", "maml-vs"): True}


def test_the_table_has_ratio_labels_and_what_was_not_run(made: Path) -> None:
    text = section("table-2-pose", pose(), read_results(made), [])
    assert "| ftml-vs | 119.1 ± 3.2 | 60.0 ± 10.0 | 3 | 0.50 | 200 ± 100 | 3.0 ± 0.0 | 1,000 ± 0 | not kept |" in text
    assert "| ftml+meta-sgd | 125.0 ± 9.4 | not run | 0 |" in text
    assert "| ftml-vl | 141.3 ± 30.3 | 141.3 | 1 | 1.00 |" in text
    assert (
        "Not run: ftml+meta-sgd (seeds 0, 1 and 2); ftml-vl (seeds 1 and 2). `anyshot reproduce table-2-pose`" in text
    )
    assert "5 runs, about 6 minutes on an H200" in text, "ftml-vl with as many steps as its other seed had"
    assert (
        "| ftml-vs | ftml | -16.4, within its spread | -101.0 [-103.5, -98.5] | 3 of 3 | as in the paper, and" in text
    )
    assert (
        "Of 6 pairs that the paper orders and we have run, 4 came out in its order (2 surely) and 2 the other" in text
    )


def test_learned_step_sizes_are_means_over_seeds(tmp_path: Path) -> None:
    rates = {"alpha": [9.0, 0.1, 0.2, 0.2, 0.2, 0.4, 0.3], "beta": [1.0, 0.5], "eta": [1.0, 2.0]}
    write_summary(tmp_path, "pose", "ftml-vs", [1.0, 2.0], {"rates": rates})
    other = {"alpha": [9.0, 0.3, 0.2, 0.2, 0.2, 0.6, 0.3], "beta": [1.0, 0.7], "eta": [1.0, 4.0]}
    write_summary(tmp_path, "pose", "ftml-vl", [1.0], {"rates": {"alpha": other["alpha"]}})
    write_summary(tmp_path, "pose", "ftml", [1.0], {"rates": {"alpha": [0.1] * 7}})
    second = tmp_path / "pose/ftml-vs-s1.json"
    second.write_text(json.dumps(json.loads(second.read_text()) | {"rates": other}))
    _, *rows = learned(read_results(tmp_path))
    assert rows == [
        ["`pose` (0.01)", "ftml-vl", "1", "0.3", "0.2", "0.6", "", "0.3", "1 of 5", "", ""],
        ["`pose` (0.01)", "ftml-vs", "2", "0.2", "0.2", "0.5", "", "0.3", "1 of 5", "0.6", "3"],
    ]


def test_the_ablation_compares_seed_by_seed(tmp_path: Path) -> None:
    for preset, lower in {"rainbow-mnist-m10": 0.0, "rainbow-mnist": 10.0, "rainbow-mnist-m30": 9.0}.items():
        write_summary(tmp_path, preset, "ftml", [500.0 - lower, 900.0 - lower])
        write_summary(tmp_path, preset, "ftml-vs", [400.0 - 2 * lower, 800.0 - 2 * lower])
    told = "\n".join(answers(read_results(tmp_path)))
    assert (
        "ftml, M = 10, 20 and 30: the means do not always fall: 700.0, 690.0 and 691.0 (the paper: 7,710.0, 4,804.2 "
        "and 4,250.7); from 10 to 20 by -10.0 [-10.0, -10.0], from 20 to 30 by +1.0 [+1.0, +1.0]." in told
    )
    assert "FTML-VS less FTML: M = 10 -100.0 [-100.0, -100.0] (the paper: -2,066.7); M = 20 -110.0 [" in told


def test_the_answers_do_not_claim_more_than_the_seeds_show(made: Path) -> None:
    told = "\n".join(answers(read_results(made)))
    assert (
        "`pose`: yes. 62.7 % less cumulative loss, -101.0 [-103.5, -98.5], better on 3 of 3 seeds (the paper: " in told
    )
    assert "`pose`: it looks worse, but that may be chance. 20.0 % more cumulative loss" in told
    assert "`pose`: one seed cannot say; it is better there." in told
    assert "Labels: the same number." in told
    assert "Of 2 with two seeds or more, 1 exclude zero each by its own interval, and 1 when corrected" in told
    assert "(Holm, 5 %): ftml-vs against ftml (`pose`)." in told
    assert "Both do worse than" not in told, "FTML-VS does better than a constant here"
    off = far_off(read_results(made))
    assert [row[1] for row in off[1:]] == ["toe", "ftml-vs", "ftml", "ftml-vl"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"title": "rainbow-mnist"}, "its settings are now called 'pose'"),
        ({"learner": "ftlm"}, "there is no learner 'ftlm'"),
        ({"seed": 7}, "is the summary of pose toe, seed 7; move it to pose/toe-s7.json"),
        ({"fingerprint": "other"}, "were not run on the same task set"),
        ({"totals": {}}, "it lacks 'cumulative_loss'"),
    ],
)
def test_a_summary_that_is_not_what_it_says_is_refused(made: Path, changes: dict[str, Any], why: str) -> None:
    write_summary(made, "pose", "toe", [20.0], changes)
    with pytest.raises(DataError, match=re.escape(why)):
        read_results(made)


# The document


def test_the_document_is_what_the_results_give() -> None:
    written = (ROOT / "REPRODUCTION.md").read_text("utf-8")
    assert generated(read_results(ROOT / "results"), "results") == written, "run: anyshot reproduce document"


def test_the_figures_are_of_the_results() -> None:
    results = read_results(ROOT / "results")
    wanted = {file: digest(preset, results) for preset in results.presets() for file in named(preset, results)}
    drawn_from = {
        path.name: re.findall(r"<!-- (drawn from \w+) -->", path.read_text("utf-8"))[0]
        for path in (ROOT / "results/figures").iterdir()
    }
    assert drawn_from == wanted, "run: anyshot reproduce document"


def test_figures_have_the_same_bytes_every_time(made: Path) -> None:
    results = read_results(made)
    figures = drawn("pose", results)
    assert set(figures) == {
        f"pose-{name}.svg"
        for name in ("cumulative-loss", "cumulative-loss-adapting", "difference-to-toe", "difference-to-ftml")
    }
    assert figures == drawn("pose", results)
    assert all(f"<!-- {digest('pose', results)} -->".encode() in data for data in figures.values())
