"""Unfinished folders: moved into place or removed, but never while another process may still write there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from anyshot.atomic import unfinished_folder
from tests.support.mirrors import put

UNSHARE = shutil.which("unshare")


@pytest.mark.skipif(UNSHARE is None or not Path("/proc/self/ns/pid").exists(), reason="needs Linux namespaces")
def test_what_lives_in_another_container_of_the_same_name_stays(tmp_path: Path) -> None:
    program = "import os, sys; from pathlib import Path; from anyshot.atomic import unfinished_folder\n"
    program += "os.getpid = lambda: 999_999_999\n"  # a number that lives there, not here
    program += f"with unfinished_folder(Path({str(tmp_path)!r})) as folder: print(folder, flush=True); sys.stdin.read()"
    words = [str(UNSHARE), "--pid", "--fork", "--mount-proc", sys.executable, "-c", program]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    folder = process.stdout.readline().strip()
    if not folder:
        process.communicate()
        pytest.skip("a namespace cannot be made here")
    with unfinished_folder(tmp_path):
        assert Path(folder).is_dir()
    process.communicate("")
    assert not Path(folder).exists()


def test_unfinished_folder_can_be_moved_into_place(tmp_path: Path) -> None:
    with unfinished_folder(tmp_path / "new") as folder:
        put(folder / "a", b"1")
        folder.replace(tmp_path / "new" / "done")
    assert (tmp_path / "new/done/a").read_bytes() == b"1"
    with suppress(KeyError), unfinished_folder(tmp_path) as folder:
        put(folder / "a", b"1")
        raise KeyError
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
