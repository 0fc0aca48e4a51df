"""The picture of runs in a terminal: it fits, says where runs are, and its curves are where their points are."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

import anyshot
from anyshot.report.terminal import draw_runs
from anyshot.report.terminal_plot import Curve, plot
from tests.support.written_runs import write_run

pytestmark = pytest.mark.medium


@pytest.mark.parametrize("colour", [False, True])
def test_a_curve_is_where_its_points_are(colour: bool) -> None:
    straight = Curve([(1.0, 0.0), (10.0, 9.0)], "red", "s")
    flat = Curve([(1.0, 9.0), (10.0, 9.0)], "blue", "f")
    _, *rows, axis = plot("t", "x", [straight, flat], width=31, height=12, colour=colour)
    assert len(rows) == 10
    assert all(row.cell_len <= 31 for row in rows)
    plain = [row.plain[9:] for row in rows]
    assert plain[0].strip() == plain[0], "the flat one fills the top row"
    places = [next(place for place, cell in enumerate(row) if cell != " ") for row in plain[1:]]
    assert places == sorted(places, reverse=True), "and the straight one goes from the lower left"
    assert places[-1] == 0
    assert places[0] >= 15
    assert [row.plain[:7].strip() for row in rows] == ["9", *[""] * 8, "0"]
    assert axis.plain.split() == ["1", "x", "10"]
    assert {str(span.style) for row in rows for span in row.spans} == {"not dim red", "not dim blue"}
    cells = {cell for row in plain for cell in row}
    assert cells <= ({" ", *map(chr, range(0x2801, 0x2900))} if colour else {" ", "s", "f"})


def test_no_points_and_one_point_are_drawn() -> None:
    assert len(plot("t", "x", [], 80, 8, colour=True)) == 8
    (_, *rows, _) = plot("t", "x", [Curve([(3.0, 0.0)], "red", "s")], 80, 8, colour=False)
    assert "".join(row.plain for row in rows).count("s") == 1
    assert len(plot("t", "x", [Curve([(1.0, -2.0), (2.0, -1.0)], "red", "s")], 80, 8, colour=True)) == 8


def frame(folder: Path, width: int = 80, height: int | None = None, waiting: tuple[str, ...] = ()) -> list[str]:
    console = Console(width=width, no_color=True, color_system=None)
    with console.capture() as caught:
        console.print(draw_runs(anyshot.read_runs(folder), waiting, width, height, colour=False))
    return caught.get().splitlines()


def test_a_picture_fits_and_says_where_each_online_run_is(tmp_path: Path) -> None:
    whole = write_run(tmp_path / "a", "toe", 0)
    part = write_run(
        tmp_path / "b", "ftml-vs", 0, finished=False, change=lambda events: [e for e in events if e["position"] < 3]
    )
    write_run(tmp_path / "c", "ftml", 0, finished=False, change=lambda events: [])
    log = tmp_path / "b/events.jsonl"
    log.write_bytes(log.read_bytes() + b'{"position":3,"ta')  # the writer is in the middle of a line
    for width in (80, 60, 200):
        lines = frame(tmp_path, width=width)
        assert max(map(len, lines)) <= width
    rows = {line.split()[1]: line.split() for line in lines if line[:2] in ("a ", "b ", "c ")}
    assert rows["toe"][-2:] == [f"{sum(event['loss'] for event in whole):,.1f}", "finished"]
    assert rows["ftml-vs"][3:5] == ["3", str(part[-1]["shots"])]
    assert rows["ftml-vs"][-4] == "updated"
    assert "none yet" in " ".join(rows["ftml"])
    assert sum(line.startswith(("cumulative loss", "labels per task")) for line in lines) == 2
    for height in (24, 30, 50):
        assert len(frame(tmp_path, height=height)) < height


def test_a_picture_says_where_each_offline_run_is(tmp_path: Path) -> None:
    name = "rainbow-digits-offline"
    tests = write_run(tmp_path / "a", "maml", 0, name)[4:]
    write_run(tmp_path / "b", "maml-vs", 0, name, finished=False, change=lambda events: events[:1])
    write_run(tmp_path / "c", "mann", 0, name, finished=False, change=lambda events: [])
    lines = frame(tmp_path, height=24)
    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
    rows = {line.split()[1]: line.split()[2:] for line in lines if line[:2] in ("a ", "b ", "c ")}
    scores = [f"{test['accuracy']:.3g}" for test in tests]
    assert rows["maml"] == ["0", "80", "0.4", "60", *scores, "finished"]
    assert rows["maml-vs"][:5] == ["0", "20", "0.2", "20", "updated"]
    assert rows["mann"][:3] == ["0", "0", "updated"]
    assert any(line.startswith("validation accuracy") for line in lines)
    assert "no curves yet" in "\n".join(frame(tmp_path / "c"))


def test_other_worlds_are_drawn_apart_and_methods_have_their_settings(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "toe", 0)
    write_run(tmp_path / "b", "toe", 0, "sinusoid")
    write_run(tmp_path / "c", "toe", 0, hyperparameters={"meta_rate": 0.5})
    lines = frame(tmp_path, waiting=("nothing in x\x1b",))
    assert [line.split()[0] for line in lines if " with protocol" in line] == ["rainbow-digits", "sinusoid"]
    assert sum(line.startswith("cumulative loss") for line in lines) == 2
    assert any("toe (meta_rate 0.5)" in line for line in lines)
    assert "nothing in x\\x1b; waiting for one" in lines[-1]


def test_names_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "x\x1b[2J[red]", 0)
    text = "\n".join(frame(tmp_path))
    assert "\x1b" not in text
    assert "x\\x1b[2J[red]" in text


def test_runs_before_their_first_line_are_shown(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "toe", 0, finished=False)
    (tmp_path / "a" / "events.jsonl").unlink()
    assert "nothing written yet" in "\n".join(frame(tmp_path))
