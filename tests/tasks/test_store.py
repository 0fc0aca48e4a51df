"""Where raw files are found and kept: places, wrong content, caches that cannot be written to."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import sys
from pathlib import Path

import pytest

from anyshot.errors import DataError
from anyshot.tasks import store
from anyshot.tasks.progress import progress
from anyshot.tasks.store import fetch, find, find_verified
from tests.support.mirrors import BODY, SHA, Server, describe, left, put, refuse, start_download

pytestmark = pytest.mark.usefixtures("cache")


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("function", ["mkdir", "fsync", "replace"])
def test_a_cache_that_cannot_be_written_to(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch, function: str, number: int
) -> None:
    monkeypatch.setattr(os, function, refuse(number))
    check_cannot_write(server, cache, os.strerror(number))
    assert server.asked["good"] <= 1  # trying again would not help


def check_cannot_write(server: Server, cache: Path, reason: str) -> None:
    with pytest.raises(DataError, match="set ANYSHOT_CACHE to a folder that can be written to") as caught:
        fetch(describe(server.url("good")), wait=0.01)
    assert str(cache) in str(caught.value)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert left(cache) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Path.open
    monkeypatch.setattr(
        Path, "open", lambda path, mode="r", *rest: opened(Path("/dev/full") if mode == "wb" else path, mode, *rest)
    )
    check_cannot_write(server, cache, os.strerror(errno.ENOSPC))


def test_a_write_that_fails_once(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(io.BufferedWriter):
        write = refuse(errno.ENOSPC)  # type: ignore[assignment]

    opened = Path.open
    monkeypatch.setattr(
        Path,
        "open",
        lambda path, mode="r", *rest: Failing(io.FileIO(str(path), "w")) if mode == "wb" else opened(path, mode, *rest),
    )
    check_cannot_write(server, cache, os.strerror(errno.ENOSPC))
    assert server.asked["good"] == 1


def test_a_file_larger_than_may_be_written(server: Server, cache: Path) -> None:
    process = start_download(
        server.url("good"), "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (9999, 9999))"
    )
    text = process.communicate(timeout=20)[1]
    assert f"DataError: cannot write data.bin (0.3 MB) into the cache {cache}: {os.strerror(errno.EFBIG)}; set" in text
    assert process.returncode == 1
    assert left(cache) == []


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_cache_that_is_a_file(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str) -> None:
    place = put(tmp_path / "file", b"mine") / below
    monkeypatch.setenv("ANYSHOT_CACHE", str(place))
    check_cannot_write(server, place, "")
    assert (tmp_path / "file").read_bytes() == b"mine"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permissions do not bind root")
def test_a_read_only_cache(server: Server, cache: Path) -> None:
    cache.mkdir(mode=0o500)
    check_cannot_write(server, cache, os.strerror(errno.EACCES))


def test_a_bad_file_that_cannot_be_deleted(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(cache / "files/set/data.bin", b"bad")
    monkeypatch.setattr(os, "unlink", refuse(errno.EROFS))
    with pytest.raises(DataError, match="set ANYSHOT_CACHE"):
        fetch(describe(server.url("good")))


def test_looks_in_the_data_folder_first_then_in_the_cache(data: Path, cache: Path) -> None:
    file = describe(also=("other/raw.bin", "raw.bin"))
    assert find(file) is None
    for place in (cache / "files/set/data.bin", data / "raw.bin", data / "other/raw.bin", data / "data.bin"):
        assert find(file) != place
        put(place, BODY)
        assert find_verified(file) == place
    assert fetch(file) == data / "data.bin"
    put(data / "set/data.bin", BODY)
    assert fetch(file) == data / "set/data.bin"


def test_wrong_content_in_the_data_folder_is_named_and_left_alone(data: Path, cache: Path, server: Server) -> None:
    bad = put(data / "set/data.bin", b"wrong")
    put(cache / "files/set/data.bin", BODY)
    assert find(describe()) == bad
    with pytest.raises(DataError, match="replace it") as caught:
        fetch(describe(server.url("good")))
    for part in (str(bad), SHA, hashlib.sha256(b"wrong").hexdigest()):
        assert part in str(caught.value)
    assert bad.read_bytes() == b"wrong"
    assert not server.asked


@pytest.mark.parametrize("content", [b"", b"wrong", BODY[:-1], BODY + b"0"])
def test_wrong_content_in_the_cache_is_downloaded_anew(server: Server, cache: Path, content: bytes) -> None:
    put(cache / "files/set/data.bin", content)
    assert find_verified(describe()) is None
    assert left(cache) == []
    put(cache / "files/set/data.bin", content)
    assert fetch(describe(server.url("good"))).read_bytes() == BODY


def test_a_good_file_another_process_put_meanwhile_is_not_deleted(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(cache / "files/set/data.bin", b"bad")

    def meanwhile(path: Path, inside: str) -> str:
        put(cache / "new", BODY).replace(path)
        return "0" * 64

    monkeypatch.setattr(store, "content_sha256", meanwhile)
    assert find_verified(describe()) is None
    assert path.read_bytes() == BODY


def test_the_data_folder_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (tmp_path / "nowhere", put(tmp_path / "file", b"")):
        monkeypatch.setenv("ANYSHOT_DATA", str(place))
        with pytest.raises(DataError, match=f"ANYSHOT_DATA is {place}, which is not an existing folder"):
            fetch(describe())
    monkeypatch.setenv("ANYSHOT_DATA", "")
    assert store.data_folder() is None


@pytest.mark.parametrize("variable", ["ANYSHOT_DATA", "ANYSHOT_CACHE"])
def test_a_folder_of_an_unknown_user_is_named(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "~nosuchuser/x")
    with pytest.raises(DataError, match=f"{variable} is ~nosuchuser/x"):
        find(describe())


def test_a_folder_that_may_not_be_searched_is_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "stat", refuse(errno.EACCES))  # tests may run as root, whom nothing is forbidden
    with pytest.raises(DataError, match=f"cannot look for {data}/set/data.bin: Permission denied"):
        find(describe())


def test_a_process_without_standard_error_downloads_too(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert fetch(describe(server.url("good"))).read_bytes() == BODY
    with progress("working", 3) as update:
        update(1)
    assert capsys.readouterr().out == ""


def test_the_usual_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANYSHOT_CACHE")
    assert store.cache_folder().is_absolute()
    assert "anyshot" in str(store.cache_folder())


def test_a_file_without_mirrors_says_in_one_line_what_to_do() -> None:
    """The command line would show a line break as its escape."""
    with pytest.raises(DataError) as caught:
        fetch(describe(bytes=9_912_422, how_to_get="ask\n  A. Author and"))
    (said,) = str(caught.value).splitlines()
    assert "data.bin of set (9.9 MB)" in said
    assert "; ask A. Author and put data.bin into $ANYSHOT_DATA/set" in said
