"""Downloads: a loopback server does everything wrong that mirrors do, and processes are killed."""

from __future__ import annotations

import gzip
import io
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from anyshot.atomic import unfinished_folder
from anyshot.errors import DataError
from anyshot.tasks import store
from anyshot.tasks.store import fetch, find
from tests.support.mirrors import BODY, SHA, Server, describe, left, put, start_download

pytestmark = [pytest.mark.usefixtures("cache"), pytest.mark.medium]


@pytest.mark.parametrize(
    ("behaviour", "asked"),
    [("good", 1), ("no_length", 1), ("redirect", 1), ("broken_once", 2), ("corrupt_once", 2)],
)
def test_downloads(server: Server, cache: Path, behaviour: str, asked: int) -> None:
    path = fetch(describe(server.url(behaviour)), wait=0.01, timeout=20.0)
    assert path == cache / "files/set/data.bin"
    assert path.read_bytes() == BODY
    assert left(cache) == ["files/set/data.bin"]
    assert server.asked[behaviour] == asked
    assert fetch(describe(server.url("missing"))) == path  # now from the cache
    assert server.asked["missing"] == 0


BAD = {
    "truncated": "299000 more expected",
    "truncated_no_length": SHA,
    "corrupt": SHA,
    "nonsense_length": "many",
    "endless": "more than 4.0 MB",
    "stall": "timed out|stalled",
    "stall_in_the_middle": "timed out|stalled",
    "trickle": "stalled",
    "trickle_head": "stalled",
    "missing": "HTTP status 404",
    "forbidden": "HTTP status 403",
    "broken": "HTTP status 500",
    "empty": SHA,
    "hang_up": "closed connection",
    "not_http": "BadStatusLine",
    "redirect_for_ever": "30 redirects",
    "redirect_to_a_file": "No connection adapters",
}
FINAL = {"missing", "forbidden"}
STALLS = {"stall", "stall_in_the_middle", "trickle", "trickle_head"}


@pytest.mark.parametrize("behaviour", BAD)
def test_bad_servers_end_in_one_sentence(server: Server, cache: Path, behaviour: str) -> None:
    file = describe(server.url(behaviour))
    began = time.monotonic()
    with pytest.raises(DataError, match=BAD[behaviour]) as caught:
        fetch(file, attempts=2, timeout=0.4 if behaviour in STALLS else 10.0, wait=0.01)
    assert time.monotonic() - began < 8
    message = str(caught.value)
    assert file.urls[0] in message
    assert "put data.bin into $ANYSHOT_DATA/set" in message
    assert left(cache) == []
    assert message.isprintable()
    assert len(message) < 600
    if behaviour not in STALLS and not behaviour.startswith("redirect"):
        assert server.asked[behaviour] == (1 if behaviour in FINAL else 2)


@pytest.mark.parametrize("behaviour", sorted(BAD.keys() - {"stall", "trickle_head"}))
def test_the_next_mirror_helps(server: Server, cache: Path, behaviour: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = describe(server.url(behaviour), server.url("good"))
    assert fetch(file, attempts=1, timeout=0.7 if behaviour in STALLS else 10.0).read_bytes() == BODY
    assert left(cache) == ["files/set/data.bin"]
    assert capsys.readouterr().err.splitlines() == ["downloading data.bin (0.3 MB) from 127.0.0.1"] * 2


def test_every_mirror_is_listed_with_its_reason(server: Server) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: refused
        port = taken.getsockname()[1]
        file = describe(server.url("missing"), f"http://127.0.0.1:{port}/x", "http://host.invalid/x", "no url at all")
        with pytest.raises(DataError) as caught:
            fetch(file, attempts=1)
    for part in (
        f"{server.url('missing')} (HTTP status 404)",
        "Connection refused",
        "http://host.invalid/x (",
        "no url",
    ):
        assert part in str(caught.value)


def test_waits_grow(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(store.time, "sleep", waits.append)
    with pytest.raises(DataError):
        fetch(describe(server.url("broken")), attempts=4, wait=0.5)
    assert [wait for wait in waits if wait] == [0.5, 1.0, 2.0]


def test_a_gz_declared_as_an_encoding_is_kept_as_sent(server: Server) -> None:
    file = describe(server.url("says_gzip"), name="data.gz", inside="gzip")
    assert gzip.decompress(fetch(file).read_bytes()) == BODY


def test_tells_one_line_where_there_is_no_terminal(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    fetch(describe(server.url("good")))
    assert tuple(capfd.readouterr()) == ("", "downloading data.bin (0.3 MB) from 127.0.0.1\n")


def test_shows_a_bar_on_a_terminal(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "140")
    fetch(describe(server.url("slow")), timeout=20.0)
    assert "downloading data.bin (0.3 MB) from 127.0.0.1" in terminal.getvalue()
    assert "kB" in terminal.getvalue()


def kill_once(process: subprocess.Popen[str], cache: Path, size: int, number: int) -> None:
    """Send a signal as soon as the unfinished file has `size` bytes."""
    deadline = time.monotonic() + 10
    while not any(path.stat().st_size >= size for path in cache.glob(".unfinished-*/data.bin")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(number)
    process.communicate(timeout=10)
    assert process.returncode != 0


@pytest.mark.parametrize("size", [0, 1000, 200_000])
def test_a_killed_download_leaves_nothing_that_matters(server: Server, cache: Path, size: int) -> None:
    process = start_download(server.url("slow"))
    kill_once(process, cache, size, signal.SIGKILL)
    assert [path.name.split("-")[1] for path in cache.glob(".unfinished-*")] == [str(process.pid)]
    assert find(describe()) is None
    assert fetch(describe(server.url("good"))).read_bytes() == BODY
    assert left(cache) == ["files/set/data.bin"]


def test_an_interrupted_download_cleans_up_at_once(server: Server, cache: Path) -> None:
    kill_once(start_download(server.url("slow")), cache, 1000, signal.SIGINT)
    assert left(cache) == []


def test_an_interrupt_need_not_wait_for_the_server(server: Server, cache: Path) -> None:
    began = time.monotonic()
    kill_once(start_download(server.url("stall")), cache, 0, signal.SIGINT)
    assert time.monotonic() - began < 8
    assert left(cache) == []


@pytest.mark.parametrize("before", [None, b"damaged"])
def test_several_processes_at_once(server: Server, cache: Path, before: bytes | None) -> None:
    if before is not None:
        put(cache / "files/set/data.bin", before)
    processes = [start_download(server.url("slow")) for _ in range(3)]
    said = [process.communicate(timeout=20)[1] for process in processes]
    assert set(said) == {"downloading data.bin (0.3 MB) from 127.0.0.1\n"}
    assert [process.returncode for process in processes] == [0] * 3
    assert left(cache) == ["files/set/data.bin"]


def test_leftovers_of_the_living_and_of_other_machines_stay_for_a_day(server: Server, cache: Path) -> None:
    with unfinished_folder(cache) as example:
        _, _, namespace, host, _ = re.fullmatch(r"(\.unfinished)-(\d+)-(\d+)-(.*)-(\w+)", example.name).groups()  # type: ignore[union-attr]
    assert host == socket.gethostname()
    dead, living = (cache / f".unfinished-{pid}-{namespace}-{host}-a" for pid in (999_999_999, os.getpid()))
    elsewhere = [
        cache / f".unfinished-999999999-{name}-b" for name in (f"{namespace}-elsewhere", f"1{namespace}-{host}")
    ]
    for folder in (dead, living, *elsewhere):
        put(folder / "data.bin", b"half")
    fetch(describe(server.url("good")))
    assert not dead.exists()
    assert all(folder.exists() for folder in (living, *elsewhere))
    long_ago = time.time() - 25 * 3600
    for folder in elsewhere:
        for path in (folder / "data.bin", folder):
            os.utime(path, (long_ago, long_ago))
    fetch(describe())
    assert living.exists()
    assert not any(folder.exists() for folder in elsewhere)
