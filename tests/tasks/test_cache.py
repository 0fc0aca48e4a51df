"""Built task sets on disk: damaged in every way they are noticed and built anew, never used."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshot.errors import DataError
from anyshot.tasks.built import Built
from anyshot.tasks.cache import Damaged, load_or_build, read, write

pytestmark = pytest.mark.medium

KEY = {"name": "toy", "version": 1, "seed": 0, "settings": {"size": 3}}
FILES = ["x.npy", "y.npy", "manifest.json"]


def build() -> Built:
    return Built({"x": np.arange(60, dtype=np.uint8).reshape(10, 6), "y": np.arange(10)}, ("a", "b"), train_tasks=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "toy", KEY, build())
    return tmp_path / "toy"


def assert_built_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Damaged):
        read(folder, KEY)
    built, fingerprint = load_or_build(folder, KEY, build)
    assert fingerprint == build().fingerprint()
    assert (built.arrays["x"] == build().arrays["x"]).all()
    assert "is damaged" in capsys.readouterr().err
    assert read(folder, KEY)[1] == fingerprint
    assert [path.name for path in folder.parent.iterdir()] == ["toy"]


def test_what_is_whole_is_not_built_again(folder: Path) -> None:
    built, fingerprint = load_or_build(folder, KEY, lambda: pytest.fail("built again"))
    assert fingerprint == build().fingerprint()
    assert built.task_names == ("a", "b")
    assert isinstance(built.arrays["x"], np.memmap)
    assert not built.arrays["x"].flags.writeable


@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit_and_every_truncation_is_noticed(name: str, folder: Path) -> None:
    path = folder / name
    whole = path.read_bytes()
    meaning = read(folder, KEY)[0]
    for place in range(len(whole)):
        for changed in (whole[:place], whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]):
            path.write_bytes(changed)
            try:
                built = read(folder, KEY)[0]
            except Damaged:
                continue
            # Spaces in the JSON and in numpy's header may change; what they say may not.
            assert built.task_names == meaning.task_names
            assert built.train_tasks == meaning.train_tasks
            for array in built.arrays:
                assert (built.arrays[array] == meaning.arrays[array]).all()
    path.write_bytes(whole)
    read(folder, KEY)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("harm", ["delete", "empty", "cut", "flip", "replace by a folder"])
def test_what_is_damaged_is_built_again(name: str, harm: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / name
    content = bytearray(path.read_bytes())
    path.unlink()
    if harm == "replace by a folder":
        path.mkdir()
    elif harm != "delete":
        content[-5] ^= 255
        path.write_bytes({"empty": b"", "cut": content[:-1], "flip": bytes(content)}[harm])
    assert_built_again(folder, capsys)


@given(
    st.recursive(st.none() | st.integers() | st.text(), lambda tree: st.lists(tree) | st.dictionaries(st.text(), tree))
)
def test_no_manifest_makes_reading_fail_otherwise(manifest: object) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "toy")
        write(folder, KEY, build())
        whole = json.loads((folder / "manifest.json").read_text())
        for changed in (
            manifest,
            whole | {"arrays": manifest},
            whole | {"task_names": manifest},
            whole | {"key": manifest},
        ):
            (folder / "manifest.json").write_text(json.dumps(changed))
            with pytest.raises(Damaged):
                read(folder, KEY)


def test_another_key_and_pickles_are_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Damaged, match="not"):
        read(folder, KEY | {"seed": 1})

    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "executed"),)

    np.save(folder / "x.npy", np.array([Trap()], object), allow_pickle=True)
    assert_built_again(folder, capsys)
    assert not (tmp_path / "executed").exists()


def test_a_rebuild_replaces_what_is_there_only_when_it_is_done(folder: Path) -> None:
    def other() -> Built:
        read(folder, KEY)  # the old one is still there
        return Built({"x": np.zeros(3)}, ("c",))

    assert load_or_build(folder, KEY, other, rebuild=True)[0].task_names == ("c",)
    assert read(folder, KEY)[0].task_names == ("c",)

    def fails() -> Built:
        raise KeyError

    with pytest.raises(KeyError):
        load_or_build(folder, KEY, fails, rebuild=True)
    assert read(folder, KEY)[0].task_names == ("c",)
    assert [path.name for path in folder.parent.iterdir()] == ["toy"]


def refusing(number: int) -> Callable[..., None]:
    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError(number, os.strerror(number))

    return refuse


def test_a_read_only_cache_is_read_and_a_rebuild_there_is_refused_before_the_work(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for function in ("mkdir", "rename", "replace", "unlink", "rmdir"):
        monkeypatch.setattr(os, function, refusing(errno.EROFS))
    load_or_build(folder, KEY, lambda: pytest.fail("built again"))
    with pytest.raises(DataError, match=r"cannot write toy into the cache .*Read-only file system"):
        load_or_build(folder, KEY, lambda: pytest.fail("built in vain"), rebuild=True)
    with pytest.raises(DataError, match="cannot write other into the cache"):
        load_or_build(folder.parent / "other", KEY, lambda: pytest.fail("built in vain"))
    assert read(folder, KEY)


def test_a_replacement_that_cannot_be_moved_in_leaves_the_old_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def refuse_new(source: Path, target: Path) -> None:
        refusing(errno.EIO)() if Path(source).name == "new" else rename(source, target)

    monkeypatch.setattr(os, "rename", refuse_new)
    with pytest.raises(DataError, match="Input/output error"):
        load_or_build(folder, KEY, build, rebuild=True)
    assert read(folder, KEY)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES, errno.EIO, errno.ENOMEM, None])
@pytest.mark.parametrize("function", ["read_text", "np.load"])
def test_what_cannot_be_read_is_not_taken_for_damaged(
    function: str, number: int | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*args: object, **kwargs: object) -> None:
        raise MemoryError

    refuse = no_memory if number is None else refusing(number)
    with monkeypatch.context() as patched:
        patched.setattr(*((Path, "read_text") if function == "read_text" else (np, "load")), refuse)
        with pytest.raises(DataError, match=f"cannot read {folder}: {os.strerror(number) if number else 'not enough'}"):
            load_or_build(folder, KEY, lambda: pytest.fail("built again"))
    assert read(folder, KEY)


@pytest.mark.parametrize("kind", ["file", "dangling link", "link to itself", "link to a damaged one", "link to a file"])
def test_whatever_has_the_folders_name_is_replaced(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, target = tmp_path / "cache/toy", tmp_path / "target"
    folder.parent.mkdir()
    if kind == "file":
        folder.write_text("")
    else:
        folder.symlink_to(folder if "itself" in kind else target)
    if kind == "link to a file":
        target.write_text("mine")
    if kind == "link to a damaged one":
        target.mkdir()
        (target / "manifest.json").write_text("mine")
    before = sorted(path.name for path in target.iterdir()) if target.is_dir() else target.exists()
    assert_built_again(folder, capsys)
    assert folder.is_dir()
    assert not folder.is_symlink()
    assert before == (sorted(path.name for path in target.iterdir()) if target.is_dir() else target.exists())


def test_a_link_to_a_good_one_is_followed(folder: Path) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    load_or_build(link, KEY, lambda: pytest.fail("built again"))


RACE = """
import sys, numpy as np
from pathlib import Path
from anyshot.tasks import cache
from anyshot.tasks.built import Built
arrays = {f"a{number}": np.full(2_000, number) for number in range(20)}
folder, number = Path(sys.argv[1]), int(sys.argv[2])
for turn in range(40):
    cache.load_or_build(folder, {"name": "toy"}, lambda: Built(arrays, ("a",)), rebuild=turn % 3 == number)
"""


def test_readers_and_rebuilders_do_not_disturb_each_other(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", RACE, str(tmp_path / "toy"), number], stderr=subprocess.PIPE, text=True)
        for number in ("0", "1", "2", "9")  # the last only reads
    ]
    said = [process.communicate(timeout=60)[1] for process in processes]
    assert said == [""] * 4, "neither damaged nor an error"
    assert [path.name for path in tmp_path.iterdir()] == ["toy"]


SLOW_BUILD = """
import sys, time, numpy as np
from pathlib import Path
from anyshot.tasks import cache
from anyshot.tasks.built import Built
arrays = {f"a{number}": np.full(200_000, number) for number in range(40)}
print("building", flush=True)
print(cache.load_or_build(Path(sys.argv[1]), {"name": "toy"}, lambda: Built(arrays, ("a",)))[1], flush=True)
"""


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", SLOW_BUILD, str(folder)], stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    told, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return told.split()[-1]


def test_killed_while_writing_it_is_built_by_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "toy"
    for delay in (0.0, 0.02, 0.05, 0.1, 0.2):
        process = start(folder)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    fingerprint = finish(start(folder))
    assert read(folder, {"name": "toy"})[1] == fingerprint
    assert [path.name for path in tmp_path.iterdir()] == ["toy"]


def test_two_processes_may_build_the_same(tmp_path: Path) -> None:
    both = [start(tmp_path / "toy") for _ in range(2)]
    assert len({finish(process) for process in both}) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["toy"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_full_or_read_only_disk_is_one_sentence(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(DataError) as caught:
        load_or_build(tmp_path / "toy", KEY, build)
    assert os.strerror(code) in str(caught.value)
    assert "set ANYSHOT_CACHE to a folder" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_really_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    mounted = mount and subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        with pytest.raises(DataError, match="No space left on device"):
            load_or_build(disk / "toy", KEY, lambda: Built({"x": np.zeros(100_000)}, ("a",)))
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_cache_that_is_a_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot write toy into the cache"):
        load_or_build(tmp_path / "file" / "toy", KEY, build)
