"""`anyshot watch` follows runs that live, are damaged, or are not there yet."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from anyshot.cli.watch import watch
from anyshot.errors import DataError, InputError
from tests.support.command_line import Anyshot, environment, interruptible
from tests.support.terminal import Terminal
from tests.support.written_runs import write_run

pytestmark = pytest.mark.medium


def test_once_prints_or_says_why_not(tmp_path: Path, anyshot_here: Anyshot) -> None:
    write_run(tmp_path / "runs/a", "toe", 0)
    write_run(tmp_path / "runs/b", "maml", 0, "rainbow-digits-offline")
    code, shown, _ = anyshot_here("watch", str(tmp_path / "runs"), "--once")
    assert code == 0
    assert shown.count("finished") == 2
    assert "cumulative loss" in shown
    assert "validation accuracy" in shown
    (tmp_path / "empty").mkdir()
    for words, why in (
        ([str(tmp_path / "empty")], "no experiment.json"),
        ([str(tmp_path / "nowhere")], "nowhere is not there"),
        ([str(tmp_path / "runs"), "--every", "0"], "--every"),
    ):
        code, shown, error = anyshot_here("watch", *words)
        assert (code, shown) == (2, "")
        assert why in error
    with pytest.raises(InputError, match="a run folder is missing"):
        watch(())
    log = tmp_path / "runs/a/events.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"loss"', b"loss", 1))
    with pytest.raises(DataError, match="not as the finished run has written it"):
        watch((tmp_path / "runs",), once=True)


def start(*words: str, **more: str) -> Terminal:
    return Terminal(interruptible(*words), environment() | more, Path.cwd())


def test_it_follows_runs_that_come_and_grow_until_all_are_finished(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    with start("watch", str(runs), "--every", "0.1", NO_COLOR="1") as terminal:
        terminal.wait_for("waiting for one")
        write_run(tmp_path / "a", "toe", 0, finished=False, change=lambda events: events[:1])
        (tmp_path / "a").rename(runs / "a")
        terminal.wait_for("a toe")
        write_run(tmp_path / "b", "ftml", 0)
        (tmp_path / "b").rename(runs / "b")
        terminal.wait_for("b ftml")
        write_run(tmp_path / "c", "toe", 0)
        for name in ("events.jsonl", "summary.json"):
            (tmp_path / "c" / name).replace(runs / "a" / name)
        assert terminal.wait() == 0
        assert terminal.shown.rsplit("method", 1)[1].count("finished") == 2
        assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", terminal.raw), "NO_COLOR"


def test_ctrl_c_is_how_one_leaves_and_changes_nothing(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "toe", 0, finished=False, change=lambda events: events[:-1])
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in (tmp_path / "a").iterdir()}
    with start("watch", str(tmp_path / "a"), "--every", "60") as terminal:
        terminal.wait_for("labels per task")
        assert re.search(r"\x1b\[[0-9;]*36m", terminal.raw), "there are colours"
        terminal.press("\x03")
        assert terminal.wait() == 0
        assert "Traceback" not in terminal.shown
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in (tmp_path / "a").iterdir()} == before


def test_a_run_that_stays_damaged_ends_it(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "toe", 0)
    os.truncate(tmp_path / "a" / "events.jsonl", 10)
    with start("watch", str(tmp_path / "a"), "--every", "0.1") as terminal:
        assert terminal.wait() == 1
        assert "is not as the finished run has written it" in terminal.shown.replace("\n", "")
