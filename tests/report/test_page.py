"""The page taken apart: it needs nothing else, shows the numbers, and is the same every time."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from anyshot.errors import InputError
from anyshot.report import compare, page, write_report
from anyshot.report.sections import describe_findings
from tests.report.conftest import Written
from tests.support.written_runs import Events, write_run

pytestmark = pytest.mark.medium


class Checker(HTMLParser):
    """Notes what a page is made of; every tag must be closed where it should be."""

    VOID = ("meta", "img", "br", "hr")

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[int] = []
        self.images: list[dict[str, str | None]] = []
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.text = ""
        self.feed(path.read_text("utf-8"))
        self.close()
        assert not self.open

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


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are not drawn."""
    monkeypatch.setattr(page, "render", lambda figure, form: b"drawn")


@pytest.fixture(scope="module")
def written(online_runs: Written, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report") / "new" / "report.html"
    assert write_report(online_runs[0], out) == out.parent / "report_files"
    return out


def test_the_page_needs_nothing_else_and_is_well_formed(written: Path, online_runs: Written) -> None:
    text, found = written.read_text("utf-8"), Checker(written)
    assert not found.tags & {"script", "link", "iframe", "object", "embed"}
    assert not any(word in text for word in ("http", "url(", "@import"))
    assert all(link.startswith("data:image/svg+xml;base64,") for link in found.links)
    assert all(image["alt"] and image["width"] and image["height"] for image in found.images)
    assert len({image["alt"] for image in found.images}) == len(found.images) >= 13
    assert found.headings[:2] == [1, 2]
    assert all(later <= earlier + 1 for earlier, later in zip(found.headings, found.headings[1:], strict=False))
    assert '<meta name="viewport"' in text
    (comparison,) = compare(online_runs[0])
    for _, row in comparison.table.iterrows():
        assert f"{row['cumulative_loss_mean']:,.{comparison.measures[0].digits}f}" in found.text
        assert f"{row['test_labels_mean']:,.0f} ± 0" in found.text
    assert f"{comparison.group.setting('protocol.test_size')} hidden test labels" in found.text
    for sentence in describe_findings(comparison):
        assert sentence in found.text
    assert "anyshot run rainbow-digits --learner ftml-vs --seed 2" in found.text
    assert "cpu <&>" in found.text
    assert "fingerprint" in found.text, "the tasks here are others than those of the runs"


def test_findings_name_the_best_and_its_interval(online_runs: Written, offline_runs: Written) -> None:
    online, offline = compare([online_runs[0], offline_runs[0]])
    for comparison in (online, offline):
        runs, *findings = describe_findings(comparison)
        assert runs == "9 runs: 3 methods, seeds 0, 1 and 2."
        compared = [measure for measure in comparison.measures if measure.compared]
        for measure, sentence in zip(compared, findings, strict=True):
            means = comparison.table[f"{measure.name}_mean"]
            best = str(means.idxmax() if measure.higher_is_better else means.idxmin())
            assert f" {best}, " in sentence
            less = comparison.difference(best, measure.name)
            if less is not None:
                assert f"95 % interval {'excludes' if less.excludes_zero else 'includes'} 0 (n = 3)" in sentence


def test_the_figures_lie_beside_the_page(written: Path) -> None:
    files = sorted((written.parent / "report_files").iterdir())
    assert len(files) == 2 * len(Checker(written).images)
    for file in files:
        data = file.read_bytes()
        assert data.startswith(b"\x89PNG" if file.suffix == ".png" else b"<?xml")
        assert len(data) > 5000
    assert sorted(path.name for path in written.parent.iterdir()) == ["report.html", "report_files"]


def test_the_same_runs_give_the_same_bytes(written: Path, online_runs: Written, tmp_path: Path) -> None:
    """In another process, with another order of sets and a hostile matplotlibrc."""
    (tmp_path / "matplotlibrc").write_text("lines.linewidth: 9\nfont.size: 30\naxes.facecolor: red\n")
    words = [str(online_runs[0]), str(tmp_path / "again.html")]
    code = f"from anyshot.report import write_report; write_report(*{words!r})"
    environment = os.environ | {"PYTHONHASHSEED": "77", "MATPLOTLIBRC": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "again.html").read_bytes() == written.read_bytes()
    for file in (written.parent / "report_files").iterdir():
        assert (tmp_path / "again_files" / file.name).read_bytes() == file.read_bytes()


def test_a_report_that_fails_leaves_the_old_one(
    written: Path, online_runs: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(written.parent, tmp_path / "here")
    out = tmp_path / "here" / "report.html"
    before = {path: path.read_bytes() for path in out.parent.rglob("*") if path.is_file()}
    drawn: list[int] = []

    def fails(*given: Any) -> bytes:
        drawn.append(1)
        if len(drawn) > 3:
            raise OSError(28, "No space left on device")
        return b"new"

    monkeypatch.setattr(page, "render", fails)
    with pytest.raises(InputError, match=r"out must be a file that can be written, .*: No space left"):
        write_report(online_runs[0], out)
    assert {path: path.read_bytes() for path in out.parent.rglob("*") if path.is_file()} == before


@pytest.mark.usefixtures("quick")
def test_old_figures_go_and_what_is_not_ours_stays(online_runs: Written, tmp_path: Path) -> None:
    beside = tmp_path / "report_files"
    beside.mkdir()
    for name in ("99-old.svg", "mine.svg", "notes.txt"):
        (beside / name).write_text("")
    write_report(online_runs[0] / "toe-0", tmp_path / "report.html")
    names = {path.name for path in beside.iterdir()}
    assert {"mine.svg", "notes.txt", "01-cumulative-loss.svg"} <= names
    assert "99-old.svg" not in names
    text = Checker(tmp_path / "report.html").text
    assert "1 run: 1 method, seed 0." in text
    assert "Learned step sizes" not in text, "TOE has none"


@pytest.mark.usefixtures("quick")
def test_an_offline_page(offline_runs: Written, tmp_path: Path) -> None:
    write_report(offline_runs[0], tmp_path / "report.html")
    found = Checker(tmp_path / "report.html")
    assert "Offline learning" in found.text
    assert "Online" not in found.text
    names = [path.stem[3:] for path in sorted((tmp_path / "report_files").glob("*.svg"))]
    assert names[0] == "test-accuracy-against-shots"
    assert names[1].startswith("step-size-alpha")
    assert names[2:] == ["beta", "eta", "validation"]
    assert "anyshot run rainbow-digits-offline --learner maml-vs --seed 2 --out" in found.text
    assert "protocol.test_shots=0,2,3" in found.text


@pytest.mark.usefixtures("quick")
def test_without_validation_tasks_there_is_no_curve(tmp_path: Path) -> None:
    def untried(events: Events) -> Events:
        names = ("score", "accuracy", "loss")
        return [
            {key: value for key, value in event.items() if event["kind"] == "test" or key not in names}
            for event in events
        ]

    write_run(tmp_path / "mann", "mann", 0, "rainbow-digits-offline", change=untried, validation_tasks=0)
    write_report(tmp_path / "mann", tmp_path / "report.html")
    assert "There are no validation tasks" in Checker(tmp_path / "report.html").text
    assert [path.name for path in (tmp_path / "report_files").glob("*.svg")] == ["01-test-accuracy-against-shots.svg"]


@pytest.mark.usefixtures("quick")
def test_both_kinds_and_names_of_all_kinds_are_on_one_page(
    online_runs: Written, offline_runs: Written, tmp_path: Path
) -> None:
    evil = ["_x", "mine <b>", "../../../up", "x\x1b[2J", "$a$"]

    def learn_rates(events: Events) -> Events:
        return [event | {"rates": {"../../up": 1.0, "$x": [0.0, 1.0]}} for event in events]

    for number, name in enumerate(evil):
        write_run(tmp_path / "runs" / str(number), name, 0, change=learn_rates)
    write_report([online_runs[0], offline_runs[0], tmp_path / "runs"], tmp_path / "report.html", "_x")
    found = Checker(tmp_path / "report.html")
    assert "Online and offline learning" in found.text
    assert "b" not in found.tags
    for name in ("_x", "mine <b>", "../../../up", "x\\x1b[2J", "$a$"):
        assert name in found.text
    assert "\x1b" not in found.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report_files", "runs"]


@pytest.mark.usefixtures("quick")
def test_commands_are_shown_only_where_they_reproduce(tmp_path: Path) -> None:
    own = {"tasks": {"name": "mine", "fingerprint": "0f0"}}
    write_run(tmp_path / "runs a" / "own", "toe", 0, change_record=lambda record: record | own)
    write_run(tmp_path / "runs a" / "known", "toe", 0)
    write_report(tmp_path / "runs a", tmp_path / "report.html")
    text = Checker(tmp_path / "report.html").text
    commands = [shlex.split(line) for line in text.splitlines() if line.startswith("anyshot run")]
    assert [words[words.index("--out") + 1] for words in commands] == [str(tmp_path / "runs a" / "known")]
    (line,) = (line for line in text.splitlines() if "Made in Python" in line)
    assert str(tmp_path / "runs a" / "own") in line
    assert "They cannot be shown: they were made in Python" in text


@pytest.mark.usefixtures("quick")
def test_tasks_that_are_not_here_are_not_fetched_for_a_page(
    no_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetched(*given: Any) -> None:
        raise AssertionError("a report has fetched data")

    monkeypatch.setattr("anyshot.tasks.load.fetch", fetched)
    write_run(tmp_path / "run", "toe", 0, "rainbow-mnist")
    write_report(tmp_path / "run", tmp_path / "report.html")
    assert "anyshot data fetch rainbow-mnist" in Checker(tmp_path / "report.html").text


@pytest.mark.usefixtures("quick")
def test_odd_environments_are_shown_as_they_are(tmp_path: Path) -> None:
    from anyshot.runs.files import sealed

    write_run(tmp_path / "run", "toe", 0)
    for data in (b"damaged", sealed(5), sealed([5, {"device": [1, {"a": None}], "opened": 7, "jax": None}])):
        (tmp_path / "run" / "environment.json").write_bytes(data)
        write_report(tmp_path / "run", tmp_path / "report.html")
    assert "[1, {'a': None}]" in Checker(tmp_path / "report.html").text


@pytest.mark.usefixtures("quick")
def test_pages_of_real_and_of_older_runs(real_runs: Path, tmp_path: Path) -> None:
    write_report(real_runs, tmp_path / "real.html")
    found = Checker(tmp_path / "real.html")
    sheets = [image for image in found.images if (image["src"] or "").startswith("data:image/png")]
    assert len(sheets) == 2, "the tasks are shown"
    write_report(Path(__file__).parent.parent / "data" / "format1", tmp_path / "old.html")
    assert len(Checker(tmp_path / "old.html").images) > 10


@pytest.mark.parametrize(
    "out", ["report.pdf", "report", "folder.html", "file/report.html", "taken.html", "linked.html"]
)
def test_a_page_that_cannot_be_is_refused(out: str, online_runs: Written, tmp_path: Path) -> None:
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "taken_files").write_text("")
    (tmp_path / "linked_files").symlink_to(tmp_path / "folder.html")
    with pytest.raises(InputError, match=r"^out "):
        write_report(online_runs[0] / "toe-0", tmp_path / out)
    assert not list((tmp_path / "folder.html").iterdir())
