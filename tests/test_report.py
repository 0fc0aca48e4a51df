"""Comparisons and reports of hand-made runs: numbers against SciPy, formats read back, the page taken apart."""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from anyshot import cli
from anyshot.cli import compare as compare_command
from anyshot.cli import report as report_command
from anyshot.errors import DataError, InputError
from anyshot.report import page
from anyshot.report.collected import collect
from anyshot.report.comparison import compare
from anyshot.report.naming import command, title
from anyshot.report.shot_figures import score_by_shots
from anyshot.runs.files import sealed, sha256
from anyshot.runs.presets import preset
from anyshot.runs.settings import Settings

TASKS = 6


def changed(name: str, **changes: Any) -> Settings:
    """A preset with other rules."""
    settings = preset(name)
    return settings.model_copy(update={"protocol": replace(settings.protocol, **changes)})


DIGITS = changed("rainbow-digits", tasks=TASKS, max_shots=4)
SINES = changed("sinusoid", tasks=TASKS, max_shots=4)


def events_of(learner: str, seed: int, settings: Settings) -> list[dict[str, Any]]:
    """What a run might have written."""
    draw = np.random.default_rng([seed, len(learner), ord(learner[-1])])
    order = np.random.default_rng(seed).permutation(TASKS)
    events, total = [], 0.0
    for position, task in enumerate(order):
        rounds = int(draw.integers(0, 9))
        for number in range(rounds + 1):
            ended, loss = number == rounds, float(draw.uniform(0.1, 3.0))
            total += loss
            event: dict[str, Any] = {
                "position": position,
                "task": f"task {task}",
                "step": 4 * number,
                "labels": 4 * number,
                "shots": min(2 * number, 4),
                "loss": loss,
                "mastered": ended and rounds < 6,
                "ended": ended,
                "total_loss": total,
            }
            if settings.protocol.measure == "accuracy":
                event["accuracy"] = float(draw.uniform(0.0, 1.0))
            if learner == "ftml-vs":
                event |= {"beta": 0.1 / (1 + position), "eta": 1.0 + position}
            if learner.startswith("ftml") and ended:
                event["alpha"] = [float(rate) for rate in draw.uniform(0, 0.1, 5)]
            events.append(event)
    return events


def write_run(
    folder: Path,
    learner: str,
    seed: int,
    settings: Settings = DIGITS,
    *,
    finished: bool = True,
    change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] = lambda events: events,
) -> list[dict[str, Any]]:
    """A run folder without checkpoints; returns its events."""
    folder.mkdir(parents=True)
    events = change(events_of(learner, seed, settings))
    described = {"learner": learner, "seed": seed, "fingerprint": "f00", "settings": settings.model_dump(mode="json")}
    (folder / "experiment.json").write_bytes(sealed(described))
    (folder / "environment.json").write_bytes(sealed([{"anyshot": "0.1.0", "device": "cpu <&>", "opened": "then"}]))
    log = "".join(json.dumps(event) + "\n" for event in events).encode()
    (folder / "events.jsonl").write_bytes(log)
    if finished:
        summary = {"summary": {"tasks": TASKS}, "events_sha256": sha256(log)}
        (folder / "summary.json").write_bytes(sealed(summary))
    return events


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[tuple[str, int], list[dict[str, Any]]]]:
    folder = tmp_path_factory.mktemp("runs")
    events = {
        (learner, seed): write_run(folder / f"{learner}-{seed}", learner, seed)
        for learner in ("toe", "ftml", "ftml-vs")
        for seed in (0, 1, 2)
    }
    return folder, events


def losses(events: list[dict[str, Any]]) -> float:
    return float(np.sum([event["loss"] for event in events]))


def labels(events: list[dict[str, Any]]) -> int:
    return sum(event["labels"] for event in events if event["ended"])


def test_the_table_has_the_numbers_that_numpy_and_scipy_have(runs: Any) -> None:
    folder, events = runs
    (comparison,) = compare(collect([folder]))
    assert comparison.against == "toe"
    assert [row.learner for row in comparison.rows] == ["toe", "ftml", "ftml-vs"]
    for row in comparison.rows:
        mine = [events[row.learner, seed] for seed in range(3)]
        assert row.seeds == (0, 1, 2)
        firsts = [[e["accuracy"] for e in one if e["shots"] == 0 and e["labels"] == 0][-2:] for one in mine]
        expected = {
            "loss": [losses(one) for one in mine],
            "labels": [labels(one) for one in mine],
            "mastered": [sum(event["mastered"] for event in one) for one in mine],
            "zero_shot": np.mean(firsts, axis=1),
        }
        for name, values in expected.items():
            assert getattr(row, name).mean == pytest.approx(np.mean(values), rel=1e-12)
            assert getattr(row, name).deviation == pytest.approx(np.std(values, ddof=1), rel=1e-12)
        if row.learner == "toe":
            assert row.loss_difference is row.labels_difference is None
            continue
        for found, value in ((row.loss_difference, losses), (row.labels_difference, labels)):
            ours, theirs = ([value(events[name, seed]) for seed in range(3)] for name in (row.learner, "toe"))
            low, high = stats.ttest_rel(ours, theirs).confidence_interval(0.95)
            assert found is not None
            assert found.mean == pytest.approx(np.mean(ours) - np.mean(theirs), rel=1e-9)
            assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9)
            assert found.excludes_zero == (stats.ttest_rel(ours, theirs).pvalue < 0.05)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    from anyshot.report.spread import Difference

    draw = np.random.default_rng(0)
    inside = [
        one.low <= 2.0 <= one.high for one in (Difference.of(list(draw.normal(2.0, 5.0, 3))) for _ in range(4000))
    ]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.012)


def printed(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    compare_command.main([str(word) for word in words])
    return capsys.readouterr().out


def test_every_format_holds_the_same_numbers(runs: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, _ = runs
    (comparison,) = compare(collect([folder]), "ftml")
    (found,) = json.loads(printed(capsys, folder, "--format", "json", "--against", "ftml"))
    rows = list(csv.DictReader(io.StringIO(printed(capsys, folder, "--format", "csv", "--against", "ftml"))))
    text, markdown, latex = (
        printed(capsys, folder, "--format", form, "--against", "ftml") for form in ("text", "markdown", "latex")
    )
    assert found["against"] == "ftml"
    assert found["settings"] == DIGITS.model_dump(mode="json")
    assert len(found["runs"]) == 9
    for row, from_json, from_csv in zip(comparison.rows, found["rows"], rows, strict=True):
        assert from_json["learner"] == from_csv["learner"] == row.learner
        for name in ("loss", "labels", "mastered", "zero_shot"):
            value = getattr(row, name)
            assert from_json[name] == {"mean": value.mean, "deviation": value.deviation}
            assert (float(from_csv[f"{name}_mean"]), float(from_csv[f"{name}_deviation"])) == (
                value.mean,
                value.deviation,
            )
        cell = f"{row.loss.mean:,.1f} ± {row.loss.deviation:,.1f}"
        assert cell in text
        assert f"| {cell} |" in markdown
        assert cell.replace("±", r"$\pm$") in latex
        if row.loss_difference is None:
            assert from_json["loss_difference"] is None
            assert from_csv["loss_difference_low"] == ""
            continue
        ends = [getattr(row.loss_difference, end) for end in ("mean", "low", "high")]
        assert list(from_json["loss_difference"].values()) == ends
        assert [float(from_csv[f"loss_difference_{end}"]) for end in ("mean", "low", "high")] == ends
        assert f"{ends[0]:+,.1f} [{ends[1]:+,.1f}, {ends[2]:+,.1f}]" in text
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 2
    widths = {len(line.split(" & ")) for line in latex.splitlines() if line.endswith(r"\\")}
    assert widths == {6, 4}
    for suffix, form in ((".csv", "csv"), (".json", "json"), (".md", "markdown"), (".tex", "latex"), (".txt", "text")):
        printed(capsys, folder, "--out", tmp_path / "new" / f"table{suffix}")
        assert (tmp_path / "new" / f"table{suffix}").read_text("utf-8") == printed(capsys, folder, "--format", form)
    assert not list((tmp_path / "new").glob(".*"))


def test_one_seed_gives_no_interval_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for learner in ("toe", "ftml"):
        write_run(tmp_path / learner, learner, 0)
    write_run(tmp_path / "vs", "ftml-vs", 7)
    text = printed(capsys, tmp_path / "toe", tmp_path / "ftml")
    assert "±" not in text.split("\n", 1)[1]
    assert "[95 %" in text
    assert "note: One seed in common with toe gives no interval: ftml." in text
    text = printed(capsys, tmp_path)
    assert "note: No seed in common with toe, so no difference: ftml-vs." in text
    assert "Not all learners have the same seeds (toe 0; ftml 0; ftml-vs 7)" in text
    text = printed(capsys, tmp_path / "vs")
    assert "nothing to compare" in text
    (found,) = json.loads(printed(capsys, tmp_path, "--format", "json"))
    assert [row["loss"]["deviation"] for row in found["rows"]] == [None] * 3


def test_a_regression_has_losses_instead_of_accuracies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "rendered", lambda figure, form: b"drawn")
    events = {learner: write_run(tmp_path / learner, learner, 3, SINES) for learner in ("toe", "ftml")}
    (found,) = json.loads(printed(capsys, tmp_path, "--format", "json"))
    assert found["zero_shot_measure"] == "loss"
    for row in found["rows"]:
        firsts = [event["loss"] for event in events[row["learner"]] if event["labels"] == 0]
        assert row["zero_shot"]["mean"] == pytest.approx(np.mean(firsts[-2:]))
    report_command.main([str(tmp_path), "--out", str(tmp_path / "report.html")])
    assert "accuracy" not in (tmp_path / "report.html").read_text("utf-8").replace("measure", "")


def test_settings_that_differ_get_a_table_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "a", "toe", 0)
    write_run(tmp_path / "b", "toe", 0, changed("rainbow-digits", tasks=TASKS, max_shots=4, advance=False))
    write_run(tmp_path / "c", "ftml", 0)
    first, second = json.loads(printed(capsys, tmp_path, "--format", "json", "--against", "ftml"))
    assert (first["against"], second["against"]) == ("ftml", "toe")
    assert [len(one["runs"]) for one in (first, second)] == [2, 1]
    assert "protocol.advance false instead of true" in second["notes"][0]
    assert second["setting"] == "rainbow-digits with protocol.advance false, protocol.max_shots 4, protocol.tasks 6"


def test_unfinished_runs_are_left_out_or_cut_to_what_all_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def until(position: int) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
        return lambda events: [event for event in events if event["position"] < position]

    toe = write_run(tmp_path / "a" / "toe", "toe", 0, finished=False, change=lambda events: events[:-1])
    write_run(tmp_path / "a" / "ftml", "ftml", 0, finished=False, change=until(3))
    with (tmp_path / "a" / "ftml" / "events.jsonl").open("a") as log:
        log.write('{"position":3,"ta')  # a line that is being written
    (found,) = json.loads(printed(capsys, tmp_path / "a", "--format", "json"))
    assert found["tasks"] == 3
    assert "None of the 2 runs is finished" in found["notes"][0]
    assert found["rows"][0]["loss"]["mean"] == pytest.approx(losses([e for e in toe if e["position"] < 3]))
    write_run(tmp_path / "b", "ftml-vs", 0)
    (found,) = json.loads(printed(capsys, tmp_path / "a", tmp_path / "b", "--format", "json"))
    assert [run["learner"] for run in found["runs"]] == ["ftml-vs"]
    assert sum("is not finished" in note for note in found["notes"]) == 2
    write_run(tmp_path / "c", "toe", 0, finished=False, change=lambda events: events[:1] if events else [])
    (tmp_path / "c" / "events.jsonl").write_bytes(b"")
    with pytest.raises(DataError, match=r"c no task has ended yet"):
        printed(capsys, tmp_path / "c")


def rename(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event | {"task": "another"} if event["position"] == 2 else event for event in events]


def test_what_cannot_be_compared_is_refused_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "toe", "toe", 0)
    write_run(tmp_path / "other", "ftml", 0, change=rename)
    write_run(tmp_path / "twin", "toe", 0)
    write_run(tmp_path / "lacks", "ftml", 0, change=lambda events: [event | {"loss": None} for event in events])
    write_run(tmp_path / "odd", "ftml", 0, change=lambda events: [])
    write_run(tmp_path / "line", "ftml", 0, finished=False)
    data = (tmp_path / "line" / "events.jsonl").read_bytes().split(b"\n")
    (tmp_path / "line" / "events.jsonl").write_bytes(b"\n".join([*data[:2], b"{broken", *data[3:]]))
    write_run(tmp_path / "log", "ftml", 0)
    (tmp_path / "log" / "events.jsonl").unlink()
    write_run(tmp_path / "experiment", "ftml", 0)
    (tmp_path / "experiment" / "experiment.json").write_bytes(b"{}")
    write_run(tmp_path / "unknown", "ftml", 0)
    (tmp_path / "unknown" / "experiment.json").write_bytes(sealed({"seed": 3}))
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    cases: list[tuple[type[Exception], str, list[str]]] = [
        (InputError, "a run folder is missing", []),
        (InputError, "nowhere is not there", ["nowhere"]),
        (InputError, "file is a file, no run folder", ["file"]),
        (InputError, "empty is no run folder and holds none", ["empty"]),
        (InputError, "twin are the same experiment", ["toe", "twin"]),
        (InputError, "one of the learners here (toe), got 'ftml'", ["toe", "--against", "ftml"]),
        (InputError, "--out must end in .txt, .csv", ["toe", "--out", "table.doc"]),
        (InputError, "--out must be a file that can be written", ["toe", "--out", "file/table.csv"]),
        (InputError, "--out must be a file, ", ["toe", "--out", "empty", "--format", "csv"]),
        (DataError, "not the same stream: task 3 is 'task", ["toe", "other"]),
        (DataError, "evaluation 1 has loss None", ["lacks"]),
        (DataError, "has no evaluations", ["odd"]),
        (DataError, "is damaged in line 3", ["line"]),
        (DataError, "is not as the finished run has written it", ["log"]),
        (DataError, "is damaged", ["experiment"]),
        (DataError, "it lacks 'settings'", ["unknown"]),
    ]
    for kind, told, words in cases:
        placed = [word if word.startswith("--") or word in ("ftml", "csv") else str(tmp_path / word) for word in words]
        with pytest.raises(kind) as caught:
            compare_command.main(placed)
        assert told in str(caught.value)
        assert "\n" not in str(caught.value)
        assert capsys.readouterr().out == ""


def test_the_environment_may_be_missing_and_a_folder_given_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "toe", "toe", 0)
    (tmp_path / "toe" / "environment.json").write_text("damaged")
    (found,) = json.loads(printed(capsys, tmp_path / "toe", tmp_path, tmp_path / "toe" / "..", "--format", "json"))
    assert len(found["runs"]) == 1


def test_scores_by_shots_carry_what_ended_and_take_the_first_of_many(runs: Any) -> None:
    folder, events = runs
    (group,) = collect([folder])
    run = group.of("ftml")[1]
    wanted = []
    for position in (0, 1, 2):
        mine = [event for event in events["ftml", 1] if event["position"] == position]
        wanted.append([mine[min(number, len(mine) - 1)]["accuracy"] for number in (0, 1, 2)])
    assert score_by_shots(run, np.arange(3), [0, 2, 4], "accuracy") == pytest.approx(np.mean(wanted, axis=0))


@pytest.mark.parametrize(
    "settings",
    [
        preset("rainbow-mnist-fixed"),
        DIGITS,
        changed("pose", advance=True, tasks=9, overlap=True, threshold=0.5),
        preset("sinusoid").model_copy(
            update={
                "data": replace(preset("sinusoid").data, settings={"tasks": 6, "given": 30}, seed=4),
                "network": replace(preset("sinusoid").network, hidden=(8, 9, 10)),
                "numbers": replace(preset("sinusoid").numbers, inner_clip=None, second_order=False, tasks="in turn"),
            }
        ),
    ],
    ids=title,
)
def test_the_command_to_reproduce_a_run_has_its_settings(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    from anyshot.cli import run

    program, name, *words = shlex.split(command(settings, "ftml-vs", 3, "a folder"))
    assert (program, name) == ("anyshot", "run")
    run.main([*words, "--dry-run"])
    told = capsys.readouterr().out
    assert "learner ftml-vs, seed 3, run folder a folder" in told
    for part, values in settings.model_dump(mode="json").items():
        for setting, value in values.items():
            assert f"  {part}.{setting} = {value}\n" in told


class Checker(HTMLParser):
    """Notes what a page is made of; every tag must be closed where it should be."""

    VOID = ("meta", "img", "br", "hr")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[int] = []
        self.images: list[dict[str, str | None]] = []
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag in ("h1", "h2", "h3"):
            self.headings.append(int(tag[1]))
        if tag == "img":
            self.images.append(dict(attrs))
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data", "style")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def report(runs: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report") / "new" / "report.html"
    report_command.main([str(runs[0]), "--out", str(out)])
    return out


def test_the_page_needs_nothing_else_and_is_well_formed(report: Path, runs: Any) -> None:
    text = report.read_text("utf-8")
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert not checker.open
    assert not checker.tags & {"script", "link", "iframe", "object", "embed"}
    assert "http" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert all(link.startswith("data:image/svg+xml;base64,") for link in checker.links)
    assert all(image["alt"] and image["width"] and image["height"] for image in checker.images)
    assert len({image["alt"] for image in checker.images}) == len(checker.images) == 15
    assert checker.headings[0] == 1
    assert checker.headings.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in zip(checker.headings, checker.headings[1:], strict=False))
    assert '<meta name="viewport"' in text
    (comparison,) = compare(collect([runs[0]]))
    for row in comparison.rows:
        assert f"{row.loss.mean:,.1f} ± {row.loss.deviation:,.1f}" in checker.text
    best = min(comparison.rows, key=lambda row: row.loss.mean)
    assert f"{best.learner} has the lowest mean cumulative loss: {best.loss.mean:,.1f}" in checker.text
    assert "anyshot run rainbow-digits --learner ftml-vs --seed 2" in checker.text
    assert "cpu <&>" in checker.text
    assert "They cannot be shown: the rainbow-digits here has fingerprint da16d05633fe39c9, that of" in checker.text


def test_tasks_that_are_not_here_are_not_fetched_for_a_page(
    no_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetched(*given: Any) -> None:
        raise AssertionError("a report has fetched data")

    monkeypatch.setattr("anyshot.tasks.load.fetch", fetched)
    monkeypatch.setattr(page, "rendered", lambda figure, form: b"drawn")
    write_run(tmp_path / "run", "toe", 0, changed("rainbow-mnist", tasks=TASKS, max_shots=4))
    report_command.main([str(tmp_path / "run"), "--out", str(tmp_path / "report.html")])
    told = "They cannot be shown: rainbow-mnist is not built here; `anyshot data fetch rainbow-mnist` does it"
    assert told in (tmp_path / "report.html").read_text("utf-8")


def test_the_figures_lie_beside_the_page(report: Path) -> None:
    files = sorted((report.parent / "report_files").iterdir())
    assert len(files) == 30
    for file in files:
        data = file.read_bytes()
        assert data.startswith(b"\x89PNG" if file.suffix == ".png" else b"<?xml")
        assert len(data) > 5000
    assert sorted(path.name for path in report.parent.iterdir()) == ["report.html", "report_files"]


def test_the_same_runs_give_the_same_bytes_without_jax(report: Path, runs: Any, tmp_path: Path) -> None:
    """In another process, with another order of sets, a hostile matplotlibrc, and without JAX."""
    (tmp_path / "matplotlibrc").write_text("lines.linewidth: 9\nfont.size: 30\naxes.facecolor: red\n")
    words = ["compare", str(runs[0])], ["report", str(runs[0]), "--out", str(tmp_path / "again.html")]
    code = f"""
import sys
from importlib import import_module
for name, *rest in {words!r}:
    import_module("anyshot.cli." + name).main(rest)
found = {{"jax", "equinox", "matplotlib.pyplot", "pandas"}} & set(sys.modules)
sys.exit(f"imported: {{found}}" if found else 0)
"""
    environment = os.environ | {"PYTHONHASHSEED": "77", "MATPLOTLIBRC": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "again.html").read_bytes() == report.read_bytes()
    for file in (report.parent / "report_files").iterdir():
        assert (tmp_path / "again_files" / file.name).read_bytes() == file.read_bytes()


def test_a_report_that_fails_leaves_the_old_one(
    report: Path, runs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(report.parent, tmp_path / "here")
    out = tmp_path / "here" / "report.html"
    before = {path: path.read_bytes() for path in out.parent.rglob("*") if path.is_file()}
    drawn: list[int] = []

    def fails(*given: Any) -> bytes:
        drawn.append(1)
        if len(drawn) > 3:
            raise OSError(28, "No space left on device")
        return b"new"

    monkeypatch.setattr(page, "rendered", fails)
    with pytest.raises(InputError, match=r"--out must be a file that can be written, .*: No space left"):
        report_command.main([str(runs[0]), "--out", str(out)])
    assert {path: path.read_bytes() for path in out.parent.rglob("*") if path.is_file()} == before


def test_old_figures_go_and_what_is_not_ours_stays(runs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = tmp_path / "report_files"
    beside.mkdir()
    for name in ("99-old.svg", "mine.svg", "notes.txt"):
        (beside / name).write_text("")
    monkeypatch.setattr(page, "rendered", lambda figure, form: b"drawn")
    report_command.main([str(runs[0] / "toe-0"), "--out", str(tmp_path / "report.html")])
    names = {path.name for path in beside.iterdir()}
    assert {"mine.svg", "notes.txt", "01-cumulative-loss.svg"} <= names
    assert "99-old.svg" not in names
    text = (tmp_path / "report.html").read_text("utf-8")
    assert "One run of toe on 6 tasks, seed 0." in text
    assert "may be chance" in text
    assert "None of these methods has an inner step size." in text


def test_nine_learners_and_one_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from anyshot.learners.names import LEARNERS
    from anyshot.report.style import look, rendered

    names = [*LEARNERS, "mine <b>", "yours"]
    for number, learner in enumerate(names):
        write_run(tmp_path / "runs" / str(number), learner, 0)
    looks = {(one.color, one.marker) for one in (look(name, names) for name in names)}
    assert len(looks) == len(names)
    assert len({one.marker for one in (look(name, names) for name in names)}) == len(names)
    drawn: list[bytes] = []

    def first_only(figure: Any, form: str) -> bytes:
        drawn.append(b"drawn" if drawn else rendered(figure, form))  # a legend that does not fit is a warning
        return drawn[-1]

    monkeypatch.setattr(page, "rendered", first_only)
    report_command.main([str(tmp_path / "runs"), "--out", str(tmp_path / "report.html")])
    assert "mine &lt;b&gt;" in (tmp_path / "report.html").read_text("utf-8")


@pytest.mark.parametrize("out", ["report.pdf", "report", "folder.html", "file/report.html"])
def test_a_page_that_cannot_be_is_refused(out: str, runs: Any, tmp_path: Path) -> None:
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"^--out must .*"):
        report_command.main([str(runs[0] / "toe-0"), "--out", str(tmp_path / out)])


@pytest.mark.parametrize("name", ["compare", "report"])
def test_the_commands_explain_every_option(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["anyshot", name, "--help"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    told = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert ended.value.code == 0
    for word in ("DIR", "--against", "--out", "run folders", "toe if it is there", "replaced"):
        assert word in told
