"""`anyshot watch`: pictures of runs that live, are damaged, or are not there yet."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from test_report import SINES, write_run

from anyshot.cli.curves import pictured
from anyshot.cli.plot import Curve, plotted
from anyshot.cli.watch import main, watch
from anyshot.errors import DataError, InputError
from anyshot.report.collected import read_run


def test_a_curve_is_where_its_points_are() -> None:
    straight = Curve([(1.0, 0.0), (10.0, 9.0)], "red", "s")
    flat = Curve([(1.0, 9.0), (10.0, 9.0)], "blue", "f")
    for colour in (False, True):
        _, *rows, axis = plotted("t", "x", [straight, flat], width=31, height=12, colour=colour)
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
    coloured = {str(span.style) for row in rows for span in row.spans}
    assert coloured == {"not dim red", "not dim blue"}
    assert {cell for row in plain for cell in row} <= {" ", *map(chr, range(0x2801, 0x2900))}


def test_no_points_and_one_point_are_drawn() -> None:
    assert len(plotted("t", "x", [], 80, 8, colour=True)) == 8
    (_, *rows, _) = plotted("t", "x", [Curve([(3.0, 0.0)], "red", "s")], 80, 8, colour=False)
    assert "".join(row.plain for row in rows).count("s") == 1


def frame(folders: list[Path], width: int = 80, height: int | None = None, colour: bool = False) -> list[str]:
    console = Console(width=width, no_color=True, color_system=None)
    with console.capture() as caught:
        console.print(pictured([read_run(folder) for folder in folders], [], width, height, colour))
    return caught.get().splitlines()


def test_a_picture_fits_and_says_where_each_run_is(tmp_path: Path) -> None:
    def half(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [event for event in events if event["position"] < 3]

    whole = write_run(tmp_path / "a", "toe", 0)
    part = write_run(tmp_path / "b", "ftml-vs", 0, finished=False, change=half)
    write_run(tmp_path / "c", "ftml", 0, finished=False, change=lambda events: [])
    log = tmp_path / "b/events.jsonl"
    log.write_bytes(log.read_bytes() + b'{"position":3,"ta')  # the writer is in the middle of a line
    for width in (80, 60, 200):
        lines = frame([tmp_path / name for name in "abc"], width=width)
        assert max(map(len, lines)) <= width
    told = {line.split()[1]: line.split() for line in lines if line[:2] in ("a ", "b ", "c ")}
    assert told["toe"][-2:] == [f"{sum(event['loss'] for event in whole):,.1f}", "finished"]
    assert told["ftml-vs"][3:5] == ["3", str(part[-1]["shots"])]
    assert told["ftml-vs"][-4:-2] == ["heard", "0"] or told["ftml-vs"][-4] == "heard"
    assert " ".join(told["ftml"]).endswith("before its first task")
    assert sum(line.startswith(("cumulative loss", "labels per task")) for line in lines) == 2
    for height in (24, 30, 50):
        assert len(frame([tmp_path / name for name in "abc"], height=height)) < height


def test_settings_that_differ_are_drawn_apart(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "toe", 0)
    write_run(tmp_path / "b", "toe", 0, SINES)
    lines = frame([tmp_path / "a", tmp_path / "b"])
    assert [line.split()[0] for line in lines if " with protocol" in line] == ["rainbow-digits", "sinusoid"]
    assert sum(line.startswith("cumulative loss") for line in lines) == 2


def test_once_prints_or_says_why_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "runs/a", "toe", 0)
    main([str(tmp_path / "runs"), "--once"])
    assert "finished" in capsys.readouterr().out
    (tmp_path / "empty").mkdir()
    for words, why in (
        ([str(tmp_path / "empty")], "holds none: there is no experiment.json"),
        ([str(tmp_path / "nowhere")], "is not there"),
        ([], "a run folder is missing"),
        ([str(tmp_path / "runs"), "--every", "0"], "--every must be 0.1 to 3600 seconds, got 0.0"),
    ):
        with pytest.raises(InputError, match=why):
            main(words)
    log = tmp_path / "runs/a/events.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"loss"', b"loss", 1))
    with pytest.raises(DataError, match="not as the finished run has written it"):
        watch((tmp_path / "runs",), once=True)


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, *words: str, **environment: str) -> None:
        ours, theirs = pty.openpty()
        program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        program += "from anyshot.cli import main; main()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *words],
            stdout=theirs,
            stderr=theirs,
            stdin=theirs,
            env=os.environ | {"TERM": "xterm", "COLUMNS": "80", "LINES": "40", **environment},
        )
        os.close(theirs)
        self.handle, self.seen = ours, ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *how: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.handle)

    def until(self, text: str, seconds: float = 30) -> None:
        """Wait for a text, or the end if it is empty."""
        end = time.monotonic() + seconds
        while (text not in self.seen or not text) and time.monotonic() < end:
            if select.select([self.handle], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.handle, 65536).decode(errors="replace")
                except OSError:  # the terminal is gone with its process
                    break
        assert text in self.seen, self.seen


def test_it_follows_runs_that_come_and_grow_until_all_are_finished(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    with Terminal("watch", str(runs), "--every", "0.1", NO_COLOR="1") as terminal:
        terminal.until("waiting for one")
        write_run(tmp_path / "a", "toe", 0, finished=False, change=lambda events: events[:1])
        (tmp_path / "a").rename(runs / "a")
        terminal.until("a toe")
        write_run(tmp_path / "b", "ftml", 0)
        (tmp_path / "b").rename(runs / "b")
        terminal.until("b ftml")
        write_run(tmp_path / "c", "toe", 0)
        for name in ("events.jsonl", "summary.json"):
            (tmp_path / "c" / name).replace(runs / "a" / name)
        terminal.until("")
        assert terminal.process.wait(10) == 0
        last = terminal.seen.rsplit("learner", 1)[1]
        assert last.count("finished") == 2
        assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", terminal.seen), "NO_COLOR"


def test_ctrl_c_is_how_one_leaves_and_changes_nothing(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "toe", 0, finished=False, change=lambda events: events[:-1])
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in (tmp_path / "a").iterdir()}
    with Terminal("watch", str(tmp_path / "a"), "--every", "60") as terminal:
        terminal.until("labels per task")
        assert re.search(r"\x1b\[[0-9;]*36m", terminal.seen), "there are colours"
        terminal.process.send_signal(signal.SIGINT)
        terminal.until("")
        assert terminal.process.wait(10) == 0
        assert "Traceback" not in terminal.seen
        assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in (tmp_path / "a").iterdir()} == before
