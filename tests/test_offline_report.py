"""Comparisons and reports of hand-made offline runs, alone and beside online ones."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy import stats
from test_report import Checker
from test_report import write_run as write_online

from anyshot.cli import compare as compare_command
from anyshot.cli import report as report_command
from anyshot.cli import watch as watch_command
from anyshot.cli.curves import pictured
from anyshot.errors import DataError, InputError
from anyshot.report import offline_figures, page
from anyshot.report.collected import collect, read_run
from anyshot.report.comparison import compare
from anyshot.report.naming import command, title
from anyshot.report.style import look
from anyshot.runs.files import sealed, sha256
from anyshot.runs.offline_presets import offline_preset
from anyshot.runs.settings import OfflineSettings

Change = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


def changed(name: str, **changes: Any) -> OfflineSettings:
    """A preset with another plan."""
    settings = offline_preset(name)
    return settings.model_copy(update={"plan": replace(settings.plan, **changes)})


DIGITS = changed("rainbow-digits-offline", steps=80, every=20, max_shots=3, test_shots=(0, 2, 3))
SINES = changed("sinusoid-offline", steps=80, every=20, max_shots=3, test_shots=(0, 2, 3))
KEPT = 60  # the step of the best of four trials


def events_of(learner: str, seed: int, settings: OfflineSettings) -> list[dict[str, Any]]:
    """What a run might have written; accuracies rise with the trial until the third."""
    draw = np.random.default_rng([seed, len(learner), ord(learner[-1])])
    shots, classifies = settings.plan.test_shots, settings.data.name != "sinusoid"
    events: list[dict[str, Any]] = []
    for trial, score in enumerate((0.2, 0.3, 0.5, 0.4), start=1):
        event: dict[str, Any] = {"step": 20 * trial, "validation_loss": [1.0] * len(shots)}
        event |= {"score": score if classifies else -1 / score, "better": trial < 4, "ended": trial == 4}
        if classifies:
            event["validation_accuracy"] = [score] * len(shots)
        if learner.startswith("maml"):
            event["alpha"] = [0.0, *(trial * draw.uniform(0, 0.1, settings.most_shots))]
        if learner == "maml-vs":
            event |= {"beta": 0.1 * trial + seed, "eta": 1.0 * trial}
        events.append(event)
    for count in shots:
        line = {"test": True, "shots": count, "loss": draw.uniform(0.5, 3), "loss_error": 0.001, "episodes": 720}
        if classifies:
            line |= {"accuracy": draw.uniform(0, 1), "accuracy_error": 0.001 * (1 + seed)}
        events.append(line)
    return events


def write_run(
    folder: Path,
    learner: str,
    seed: int,
    settings: OfflineSettings = DIGITS,
    *,
    finished: bool = True,
    change: Change = lambda events: events,
) -> list[dict[str, Any]]:
    """A run folder without checkpoints; returns its events."""
    folder.mkdir(parents=True)
    events = change(events_of(learner, seed, settings))
    described = {"learner": learner, "seed": seed, "fingerprint": "f00", "settings": settings.model_dump(mode="json")}
    (folder / "experiment.json").write_bytes(sealed(described))
    log = "".join(json.dumps(event) + "\n" for event in events).encode()
    (folder / "events.jsonl").write_bytes(log)
    if finished:
        (folder / "summary.json").write_bytes(sealed({"summary": {"steps": 80}, "events_sha256": sha256(log)}))
    return events


def outcome(events: list[dict[str, Any]], measure: str) -> list[float]:
    return [event[measure] for event in events if "test" in event]


def printed(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    compare_command.main([str(word) for word in words])
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[tuple[str, int], list[dict[str, Any]]]]:
    folder = tmp_path_factory.mktemp("runs")
    learners = ("mann", "maml-vs", "maml")  # not in the order that the table has them
    return folder, {
        (learner, seed): write_run(folder / f"{learner}-{seed}", learner, seed)
        for learner in learners
        for seed in (0, 1, 2)
    }


def test_the_table_has_the_numbers_that_numpy_and_scipy_have(runs: Any) -> None:
    folder, events = runs
    (comparison,) = compare(collect([folder]))
    assert comparison.against == "maml"
    assert [row.learner for row in comparison.rows] == ["maml", "maml-vs", "mann"]
    for row in comparison.rows:
        ours, theirs = (
            np.array([outcome(events[learner, seed], "accuracy") for seed in range(3)])
            for learner in (row.learner, "maml")
        )
        assert [one.mean for one in row.scores] == pytest.approx(ours.mean(axis=0), rel=1e-12)
        assert [one.deviation for one in row.scores] == pytest.approx(ours.std(axis=0, ddof=1), rel=1e-12)
        assert row.errors == pytest.approx([0.003] * 3)
        if row.learner == "maml":
            assert row.pairs == row.differences == ()
            continue
        for place, found in enumerate(row.differences):
            low, high = stats.ttest_rel(ours[:, place], theirs[:, place]).confidence_interval(0.95)
            assert found.mean == pytest.approx((ours - theirs).mean(axis=0)[place], rel=1e-9)
            assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9)


def test_every_format_holds_the_same_numbers(runs: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, _ = runs
    (comparison,) = compare(collect([folder]), "mann")
    told = {
        form: printed(capsys, folder, "--format", form, "--against", "mann")
        for form in ("text", "csv", "json", "markdown", "latex")
    }
    (found,) = json.loads(told["json"])
    assert (found["against"], found["measure"], found["shots"]) == ("mann", "accuracy", [0, 2, 3])
    assert found["settings"] == DIGITS.model_dump(mode="json")
    assert {run["best_step"] for run in found["runs"]} == {KEPT}
    lines = iter(csv.DictReader(io.StringIO(told["csv"])))
    head, *rows = (line.split() for line in told["text"].splitlines()[2:6])
    assert head == ["Method", "Seeds", "0-Shot", "2-Shot", "3-Shot"]
    assert "standard error" not in told["text"]
    assert "Method & Seeds & 0-Shot & 2-Shot & 3-Shot" in told["latex"]
    for row, from_json, from_text in zip(comparison.rows, found["rows"], rows, strict=True):
        assert from_text[:2] == [row.learner, "3"]
        cells = [f"{100 * one.mean:.1f} ± {100 * one.deviation:.1f}" for one in row.scores]
        assert " ".join(from_text[2:]) == " ".join(cells)
        assert f"| {row.learner} | 3 | {' | '.join(cells)} |" in told["markdown"]
        assert f"{row.learner} & 3 & {' & '.join(cells)}".replace("±", r"$\pm$") in told["latex"]
        assert [one["mean"] for one in from_json["scores"]] == [one.mean for one in row.scores]
        for place, (shots, line) in enumerate(zip((0, 2, 3), lines, strict=False)):
            assert (line["learner"], line["shots"]) == (row.learner, str(shots))
            assert float(line["mean"]) == row.scores[place].mean
            assert float(line["deviation"]) == row.scores[place].deviation
            assert (line["difference_low"] == "") == (row.learner == "mann")
            if row.learner != "mann":
                less = row.differences[place]
                ends = [less.mean, less.low, less.high]
                assert [float(line[f"difference_{end}"]) for end in ("mean", "low", "high")] == ends
                mean, low, high = (f"{100 * end:+.1f}" for end in ends)
                assert f"{mean} [{low}, {high}]" in told["text"]
    assert next(lines, None) is None
    assert told["latex"].count(r"\begin{tabular}{lrrrr}") == told["latex"].count(r"\end{tabular}") == 2
    printed(capsys, folder, "--against", "mann", "--out", tmp_path / "table.tex")
    assert (tmp_path / "table.tex").read_text("utf-8") == told["latex"]


def test_one_seed_has_the_error_of_its_test_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def wide(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [event | ({"accuracy_error": 0.0042} if "test" in event else {}) for event in events]

    one = write_run(tmp_path / "one" / "maml", "maml", 4, change=wide)
    text = printed(capsys, tmp_path / "one")
    assert "test accuracy in percent, mean ± standard error over test episodes (one seed each)" in text
    assert f"{100 * outcome(one, 'accuracy')[0]:.1f} ± 0.4" in text
    assert "above the 0.3 points asked for, as the test ended at plan.most_episodes: maml seed 4 0.42." in text
    assert "There are only runs of maml" in text
    for seed in (4, 5):
        write_run(tmp_path / "two" / f"vs-{seed}", "maml-vs", seed, change=wide if seed == 4 else lambda events: events)
    text = printed(capsys, tmp_path / "one", tmp_path / "two")
    assert "± standard deviation over seeds (± standard error over test episodes where there is one seed)" in text
    assert "One seed in common with maml gives no interval: maml-vs." in text
    assert "Not all learners have the same seeds (maml 4; maml-vs 4 and 5), so their means are over different" in text


def test_a_regression_has_losses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def known(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        losses = iter((1.5, 0.25, 0.0625))
        return [event | {"loss": next(losses)} if "test" in event else event for event in events]

    for learner in ("maml", "mann"):
        write_run(tmp_path / learner, learner, 0, SINES, change=known)
    text = printed(capsys, tmp_path)
    assert ": test loss, mean ±" in text
    assert "1.50000 ± 0.00100  0.25000 ± 0.00100  0.06250 ± 0.00100" in text
    assert "above the 0.3 percent asked for, as the test ended at plan.most_episodes: maml seed 0 1.60," in text
    assert "points" not in text
    (comparison,) = compare(collect([tmp_path]))
    (picture,) = offline_figures.validation(comparison.group)
    assert picture.figure.axes[0].lines[0].get_ydata() == pytest.approx([1 / score for score in (0.2, 0.3, 0.5, 0.4)])


def test_figures_show_the_numbers(runs: Any) -> None:
    folder, events = runs
    (comparison,) = compare(collect([folder]))
    (picture,) = offline_figures.scores(comparison)
    axes = picture.figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "2", "3"]
    for row, drawn in zip(comparison.rows, axes.containers, strict=True):
        line, _, (bars,) = drawn.lines
        mean, deviation = (np.array([getattr(one, name) for one in row.scores]) for name in ("mean", "deviation"))
        assert line.get_ydata() == pytest.approx(100 * mean)
        assert np.abs(line.get_xdata() - np.sqrt([0, 2, 3])).max() < 0.1
        ends = np.array([segment[:, 1] for segment in bars.get_segments()])
        assert ends == pytest.approx(100 * np.stack([mean - deviation, mean + deviation], axis=1))
    group = comparison.group
    (alpha,) = offline_figures.alphas(group)
    for learner, line in zip(("maml", "maml-vs"), alpha.figure.axes[0].lines, strict=True):
        kept = [events[learner, seed][KEPT // 20 - 1]["alpha"][1:] for seed in range(3)]
        assert line.get_ydata() == pytest.approx(np.mean(kept, axis=0))
    beta, eta = offline_figures.scales(group)
    lines = beta.figure.axes[0].lines
    assert [tuple(line.get_data()[0]) for line in lines[:2]] == [(20, 40, 60, 80), (KEPT,)]
    assert [line.get_ydata()[-1] for line in lines[1:6:2]] == pytest.approx([0.3, 1.3, 2.3])
    assert eta.name == "eta"
    (validation,) = offline_figures.validation(group)
    marks = [line for line in validation.figure.axes[0].lines if len(line.get_xdata()) == 1]
    assert [(*line.get_xdata(), *line.get_ydata()) for line in marks] == [(KEPT, 50.0)] * 9
    assert look("maml-vs", []) == look("ftml-vs", [])


def test_the_page_has_it_all(runs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = runs
    monkeypatch.setattr(page, "rendered", lambda figure, form: b"drawn")
    out = tmp_path / "report.html"
    report_command.main([str(folder), "--out", str(out)])
    checker = Checker()
    checker.feed(out.read_text("utf-8"))
    assert not checker.open
    assert "Offline meta-learning: a comparison" in checker.text
    assert "Online" not in checker.text
    names = [path.name for path in sorted((tmp_path / "report_files").glob("*.svg"))]
    assert [name[3:-4] for name in names] == ["accuracy-against-shots", "alpha", "beta", "eta", "validation"]
    (comparison,) = compare(collect([folder]))
    for place, shots in enumerate(("0 shots", "2 shots", "3 shots")):
        best = max(comparison.rows, key=lambda row: row.scores[place].mean)
        told = f"With {shots} {best.learner} has the highest mean accuracy: {100 * best.scores[place].mean:.1f} ±"
        assert told in checker.text
    assert "anyshot offline rainbow-digits-offline --learner maml-vs --seed 2 --out" in checker.text
    assert "--plan.test-shots 0 2 3" in checker.text
    assert "tried on 4 training tasks kept apart" in checker.text


def test_online_and_offline_runs_come_one_after_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "rendered", lambda figure, form: b"drawn")
    write_run(tmp_path / "runs" / "a", "maml", 0)
    write_run(tmp_path / "runs" / "b", "maml-vs", 0)
    write_run(tmp_path / "runs" / "d", "maml", 0, SINES)
    write_run(tmp_path / "runs" / "e", "maml", 0, changed("omniglot-5way"), finished=False)
    write_online(tmp_path / "runs" / "c", "toe", 0)
    online, digits, sines = json.loads(printed(capsys, tmp_path / "runs", "--format", "json", "--against", "maml-vs"))
    assert [one["against"] for one in (online, digits, sines)] == ["toe", "maml-vs", "maml"]
    assert not any("Apart" in note for one in (online, digits) for note in one["notes"])
    assert 'data.name "sinusoid" instead of "rainbow-digits" and what goes with it.' in sines["notes"][0]
    assert "Left out: no run of omniglot-5way is finished" in " ".join(sines["notes"])
    rows = list(csv.DictReader(io.StringIO(printed(capsys, tmp_path / "runs", "--format", "csv"))))
    assert [(row["learner"], row["shots"]) for row in rows[:4]] == [
        ("toe", ""),
        ("maml", "0"),
        ("maml", "2"),
        ("maml", "3"),
    ]
    assert rows[0]["loss_mean"]
    assert rows[1]["mean"]
    assert not rows[0]["mean"] + rows[1]["loss_mean"]
    report_command.main([str(tmp_path / "runs"), "--out", str(tmp_path / "report.html")])
    text = (tmp_path / "report.html").read_text("utf-8")
    assert "<h1>Online and offline learning: a comparison</h1>" in text
    assert text.index("Cumulative loss</h3>") < text.index("Training</h3>")
    watch_command.main([str(tmp_path / "runs"), "--once"])
    told = capsys.readouterr().out
    assert "cumulative loss" in told
    assert "validation accuracy" in told


def test_runs_that_are_not_finished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "vs", "maml-vs", 0, finished=False, change=lambda events: events[:2])
    with (tmp_path / "vs" / "events.jsonl").open("a") as log:
        log.write('{"step":60,"val')  # a line that is being written
    for words in ([tmp_path], [tmp_path, "--format", "json"]):
        with pytest.raises(
            DataError, match=r"^no run of rainbow-.* is finished, .*vs has done 40 steps of at most 80$"
        ):
            printed(capsys, *words)
    write_run(tmp_path / "maml", "maml", 0)
    # A test without a summary is not finished: the process may have ended in between.
    write_run(tmp_path / "vl", "maml-vl", 0, finished=False)
    assert read_run(tmp_path / "vl").tests == ()
    (found,) = json.loads(printed(capsys, tmp_path, "--format", "json"))
    assert [run["learner"] for run in found["runs"]] == ["maml"]
    assert f"{tmp_path / 'vs'} (maml-vs, seed 0) is not finished, 40 steps so far, and is left out." in found["notes"]
    assert sum("is left out" in note for note in found["notes"]) == 2


def test_a_picture_in_the_terminal_fits(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "maml", 0)
    write_run(tmp_path / "b", "maml-vs", 0, finished=False, change=lambda events: events[:1])
    write_run(tmp_path / "c", "mann", 0, finished=False, change=lambda events: [])
    console = Console(width=80, color_system=None)
    with console.capture() as caught:
        console.print(pictured([read_run(tmp_path / name) for name in "abc"], [], 80, 24, colour=False))
    lines = caught.get().splitlines()
    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
    told = {line.split()[1]: line.split()[2:] for line in lines if line[:2] in ("a ", "b ", "c ")}
    assert told["maml"][:4] == ["0", "80", "0.4", "60"]
    assert told["maml"][-1] == "finished"
    assert told["maml-vs"][:5] == ["0", "20", "0.2", "20", "heard"]
    assert told["mann"][:3] == ["0", "0", "heard"]
    only = pictured([read_run(tmp_path / "c")], [], 80, 24, colour=False)
    with console.capture() as caught:
        console.print(only)
    assert "no trial yet" in caught.get()


def test_what_cannot_be_compared_is_refused_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def without(name: str) -> Change:
        return lambda events: [{key: value for key, value in event.items() if key != name} for event in events]

    write_run(tmp_path / "maml", "maml", 0)
    write_run(tmp_path / "twin", "maml", 0)
    write_run(tmp_path / "short", "maml", 0, change=lambda events: events[:-1])
    write_run(tmp_path / "step", "maml", 0, change=without("step"))
    write_run(tmp_path / "error", "maml", 0, change=without("accuracy_error"))
    write_run(tmp_path / "log", "maml", 0)
    write_run(tmp_path / "line", "maml", 0, finished=False)
    for name in ("log", "line"):
        path = tmp_path / name / "events.jsonl"
        path.write_bytes(path.read_bytes().replace(b'{"step": 40', b'{"step": 4!', 1))
    cases: list[tuple[type[Exception], str, list[str]]] = [
        (InputError, "twin are the same experiment", ["maml", "twin"]),
        (InputError, "one of the learners here (maml), got 'toe'", ["maml", "--against", "toe"]),
        (DataError, "should have one test each of 0, 2 and 3 shots, but has 0 and 2", ["short"]),
        (DataError, "trial 1 has step None, which no run writes", ["step"]),
        (DataError, "test 1 has accuracy_error None, which no run writes", ["error"]),
        (DataError, "is not as the finished run has written it", ["log"]),
        (DataError, "is damaged in line 2", ["line"]),
    ]
    for kind, told, (name, *rest) in cases:
        words = [str(tmp_path / name), *(str(tmp_path / word) if word == "twin" else word for word in rest)]
        with pytest.raises(kind) as caught:
            compare_command.main(words)
        assert told in str(caught.value)
        assert "\n" not in str(caught.value)
        assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "settings",
    [
        DIGITS,
        changed("omniglot-50way", ways=None, train_tasks=30, standard_error=0.5),
        changed("rainbow-mnist-offline", test_shots=(1,), validation_tasks=0),
    ],
    ids=title,
)
def test_the_command_to_reproduce_a_run_has_its_settings(
    settings: OfflineSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    from anyshot.cli import offline

    program, verb, *words = shlex.split(command(settings, "maml-vs", 3, "a folder"))
    assert (program, verb) == ("anyshot", "offline")
    offline.main([*words, "--dry-run"])
    told = capsys.readouterr().out
    for part, values in settings.model_dump(mode="json").items():
        for setting, value in values.items():
            assert f"  {part}.{setting} = {value}\n" in told


def test_without_validation_tasks_there_is_no_curve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def untried(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        names = ("score", "validation_accuracy", "validation_loss")
        return [{key: value for key, value in event.items() if key not in names} for event in events]

    monkeypatch.setattr(page, "rendered", lambda figure, form: b"drawn")
    settings = changed("rainbow-digits-offline", steps=80, every=20, max_shots=3, test_shots=(3,), validation_tasks=0)
    write_run(tmp_path / "mann", "mann", 0, settings, change=untried)
    report_command.main([str(tmp_path / "mann"), "--out", str(tmp_path / "report.html")])
    text = (tmp_path / "report.html").read_text("utf-8")
    assert "There are no validation tasks: every run was trained for all 80 steps." in text
    assert "None of these methods has an inner step size." in text
    assert [path.name for path in (tmp_path / "report_files").glob("*.svg")] == ["01-accuracy-against-shots.svg"]
