"""Where tables and pages may be written: regular files only, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from anyshot.atomic import check_out, write_text
from anyshot.errors import InputError
from anyshot.report import compare, write_comparisons, write_report
from tests.report.conftest import Written

Write = Callable[[Path, Path], object]
WRITE: dict[str, Write] = {
    "table": lambda runs, out: write_comparisons(compare(runs), out, "text"),
    "page": lambda runs, out: write_report(runs, out),
}


@pytest.mark.parametrize("write", WRITE.values(), ids=WRITE)
def test_what_is_not_a_regular_file_stays(online_runs: Written, tmp_path: Path, write: Write) -> None:
    (tmp_path / "target.html").write_text("old")
    (tmp_path / "link.html").symlink_to(tmp_path / "target.html")
    (tmp_path / "dangling.html").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder.html").mkdir()
    os.mkfifo(tmp_path / "pipe.html")
    before = {path: path.lstat().st_mode for path in tmp_path.iterdir()}
    for path in before:
        if path.name != "target.html":
            with pytest.raises(InputError, match=r"out must be a new or a regular file"):
                write(online_runs[0] / "toe-0", path)
    assert {path: path.lstat().st_mode for path in tmp_path.iterdir()} == before
    assert (tmp_path / "target.html").read_text() == "old"


def test_a_device_is_refused() -> None:
    with pytest.raises(InputError, match="device"):
        check_out(Path(os.devnull))


@pytest.mark.parametrize("write", WRITE.values(), ids=WRITE)
def test_a_place_that_cannot_be_written_is_named(online_runs: Written, tmp_path: Path, write: Write) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"out must be a file that can be written.*report\.html"):
        write(online_runs[0] / "toe-0", tmp_path / "file" / "report.html")


def test_a_file_is_replaced_at_once(tmp_path: Path) -> None:
    out = tmp_path / "new" / "table.txt"
    for text in ("one ä\n", "two\n"):
        write_text(out, text)
        assert out.read_bytes() == text.encode()
    assert list(out.parent.iterdir()) == [out]
