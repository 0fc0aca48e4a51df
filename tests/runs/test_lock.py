"""One writer a folder: the lock names its holder, dies with it, and never touches another file."""

from __future__ import annotations

import errno
import os
import socket
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from anyshot.errors import DataError, InputError
from anyshot.runs.folder import RunFolder
from tests.support.toy_runs import EXPERIMENT, content, no_warning, start_script, toy


def test_the_lock_names_its_holder_and_dies_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "lock").write_text("process 123456789 on " + 50 * "another.host")  # of a process that has ended
    with start_script("hold", str(folder)) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(DataError) as error:
            toy(folder)
        assert f"process {process.pid} on {socket.gethostname()};" in str(error.value)
        process.kill()
        process.wait()
    toy(folder)
    toy(tmp_path / "whole")
    assert content(folder) == content(tmp_path / "whole")


def test_one_process_is_not_two_writers(tmp_path: Path) -> None:
    with RunFolder.opened(tmp_path, EXPERIMENT, {}, no_warning):
        with pytest.raises(DataError, match=f"process {os.getpid()} on"):
            toy(tmp_path)
        (tmp_path / "lock").write_bytes(b"\xff")
        with pytest.raises(DataError, match="another process"):
            toy(tmp_path)
    toy(tmp_path)


def test_a_file_system_without_locks_is_named(tmp_path: Path) -> None:
    error = OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    with patch("fcntl.flock", side_effect=error), pytest.raises(DataError, match=f"cannot lock {tmp_path}"):
        toy(tmp_path)
    with patch.dict(sys.modules, {"fcntl": None}), pytest.raises(DataError, match="flock"):
        toy(tmp_path)


@pytest.mark.parametrize("name", ["lock", "events.jsonl"])
def test_a_link_in_a_run_folder_leaves_its_target_untouched(name: str, tmp_path: Path) -> None:
    target, folder = tmp_path / "thesis.tex", tmp_path / "run"
    target.write_text("years of work")
    with RunFolder.opened(folder, EXPERIMENT, {}, no_warning):
        pass
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(target)
    with pytest.raises((InputError, DataError), match=str(folder)):
        toy(folder, warn=lambda sentence: None)
    assert target.read_text() == "years of work"
