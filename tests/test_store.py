"""Raw data files: a loopback server does everything wrong that servers do; processes are killed; disks are full."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshot.errors import DataError, InputError
from anyshot.tasks import store
from anyshot.tasks.progress import progress
from anyshot.tasks.store import DataFile, content_sha256, fetch, find, verified
from anyshot.unfinished import unfinished_folder

BODY = random.Random(0).randbytes(300_000)  # noqa: S311
SHA = hashlib.sha256(BODY).hexdigest()


class Server(ThreadingHTTPServer):
    daemon_threads = False  # closing waits for every handler, so that no socket is left open

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: Counter[str] = Counter()
        self.stop = threading.Event()

    def url(self, behaviour: str, name: str = "data.bin") -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{behaviour}/{name}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that hang up are what is tested here."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *args: object) -> None:
        """Silent."""

    def head(self, status: int = 200, length: int | None = len(BODY), **headers: str) -> None:
        self.send_response(status)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def slowly(self, data: bytes, step: int, pause: float) -> None:
        for start in range(0, len(data), step):
            self.wfile.write(data[start : start + step])
            if self.server.stop.wait(pause):
                return

    def do_GET(self) -> None:
        behaviour = self.path.split("/")[1]
        self.server.asked[behaviour] += 1
        getattr(self, f"do_{behaviour}")()

    def do_good(self) -> None:
        self.head()
        self.wfile.write(BODY)

    def do_no_length(self) -> None:
        self.head(length=None)
        self.wfile.write(BODY)

    def do_redirect(self) -> None:
        self.head(302, 0, Location=self.server.url("good"))

    def do_redirect_for_ever(self) -> None:
        self.head(302, 0, Location=self.path)

    def do_redirect_to_a_file(self) -> None:
        self.head(302, 0, Location="file:///etc/hostname")

    def do_says_gzip(self) -> None:  # a .gz file, which many servers declare to be an encoding
        self.head(length=None, Content_Encoding="gzip", Content_Type="application/x-gzip")
        self.wfile.write(gzip.compress(BODY))

    def do_truncated(self) -> None:
        self.head()
        self.wfile.write(BODY[:1000])

    def do_truncated_no_length(self) -> None:
        self.head(length=None)
        self.wfile.write(BODY[:1000])

    def do_corrupt(self) -> None:
        self.head()
        self.wfile.write(BODY[:5000] + bytes([BODY[5000] ^ 1]) + BODY[5001:])

    def do_nonsense_length(self) -> None:
        self.head(length=None, Content_Length="many")
        self.wfile.write(BODY)

    def do_endless(self) -> None:
        self.head(length=None)
        while not self.server.stop.is_set():
            self.wfile.write(BODY)

    def do_stall(self) -> None:
        self.server.stop.wait()

    def do_stall_in_the_middle(self) -> None:
        self.head()
        self.wfile.write(BODY[:100_000])
        self.server.stop.wait()

    def do_trickle(self) -> None:
        self.head()
        self.slowly(BODY, 1, 0.05)

    def do_trickle_head(self) -> None:
        self.slowly(b"HTTP/1.0 200 OK\r\nX: " + bytes(1000), 1, 0.05)

    def do_missing(self) -> None:
        self.send_error(404)

    def do_forbidden(self) -> None:
        self.send_error(403)

    def do_broken(self) -> None:
        self.send_error(500)

    def do_broken_once(self) -> None:
        self.send_error(500) if self.server.asked["broken_once"] == 1 else self.do_good()

    def do_corrupt_once(self) -> None:
        self.do_corrupt() if self.server.asked["corrupt_once"] == 1 else self.do_good()

    def do_empty(self) -> None:
        self.head(length=0)

    def do_hang_up(self) -> None:
        self.close_connection = True

    def do_not_http(self) -> None:
        self.wfile.write(b"\x00\xff" * 500)

    def do_slow(self) -> None:
        self.head()
        self.slowly(BODY, 10_000, 0.02)


@pytest.fixture(scope="module")
def serving() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.stop.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def server(serving: Server) -> Server:
    serving.asked.clear()
    return serving


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANYSHOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("ANYSHOT_DATA", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("ANYSHOT_DATA", str(folder))
    return folder


def described(*urls: str, **fields: object) -> DataFile:
    return DataFile(**{"folder": "set", "name": "data.bin", "sha256": SHA, "bytes": len(BODY), "urls": urls, **fields})  # type: ignore[arg-type]


def left(cache: Path) -> list[str]:
    """Every file in the cache and every unfinished folder."""
    return sorted(
        str(p.relative_to(cache)) for p in cache.rglob("*") if p.is_file() or p.name.startswith(".unfinished")
    )


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


# Servers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behaviour", "asked"),
    [("good", 1), ("no_length", 1), ("redirect", 1), ("broken_once", 2), ("corrupt_once", 2)],
)
def test_downloads(server: Server, cache: Path, behaviour: str, asked: int) -> None:
    path = fetch(described(server.url(behaviour)), wait=0.01, timeout=20.0)
    assert path == cache / "files/set/data.bin"
    assert path.read_bytes() == BODY
    assert left(cache) == ["files/set/data.bin"]
    assert server.asked[behaviour] == asked
    assert fetch(described(server.url("missing"))) == path  # now from the cache
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
    file = described(server.url(behaviour))
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
    file = described(server.url(behaviour), server.url("good"))
    assert fetch(file, attempts=1, timeout=0.7 if behaviour in STALLS else 10.0).read_bytes() == BODY
    assert left(cache) == ["files/set/data.bin"]
    assert capsys.readouterr().err.splitlines() == ["downloading data.bin (0.3 MB) from 127.0.0.1"] * 2


def test_every_mirror_is_listed_with_its_reason(server: Server) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: refused
        port = taken.getsockname()[1]
        file = described(server.url("missing"), f"http://127.0.0.1:{port}/x", "http://host.invalid/x", "no url at all")
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
        fetch(described(server.url("broken")), attempts=4, wait=0.5)
    assert [wait for wait in waits if wait] == [0.5, 1.0, 2.0]


def test_a_gz_declared_as_an_encoding_is_kept_as_sent(server: Server) -> None:
    file = described(server.url("says_gzip"), name="data.gz", inside="gzip")
    assert gzip.decompress(fetch(file).read_bytes()) == BODY


def test_tells_one_line_where_there_is_no_terminal(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    fetch(described(server.url("good")))
    assert tuple(capfd.readouterr()) == ("", "downloading data.bin (0.3 MB) from 127.0.0.1\n")


def test_shows_a_bar_on_a_terminal(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "140")
    fetch(described(server.url("slow")), timeout=20.0)
    assert "downloading data.bin (0.3 MB) from 127.0.0.1" in terminal.getvalue()
    assert "kB" in terminal.getvalue()


# Processes ----------------------------------------------------------------------------------------------------------

CHILD = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored in what runs in the background
from anyshot.tasks import store
heavy = {"jax", "numpy", "equinox", "pooch", "requests", "rich"} & set(sys.modules)
assert not heavy, heavy
exec(sys.argv[3])
file = store.DataFile("set", "data.bin", sys.argv[1], 300_000, urls=(sys.argv[2],))
try:
    path = store.fetch(file, timeout=20, wait=0.01)
except store.DataError as error:
    sys.exit(f"DataError: {error}")
assert path.stat().st_size == 300_000 and store.content_sha256(path, "file") == sys.argv[1]
"""


def child(url: str, before: str = "") -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", CHILD, SHA, url, before]
    return subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)


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
    process = child(server.url("slow"))
    kill_once(process, cache, size, signal.SIGKILL)
    assert [path.name.split("-")[1] for path in cache.glob(".unfinished-*")] == [str(process.pid)]
    assert find(described()) is None
    assert fetch(described(server.url("good"))).read_bytes() == BODY
    assert left(cache) == ["files/set/data.bin"]


def test_an_interrupted_download_cleans_up_at_once(server: Server, cache: Path) -> None:
    kill_once(child(server.url("slow")), cache, 1000, signal.SIGINT)
    assert left(cache) == []


def test_an_interrupt_need_not_wait_for_the_server(server: Server, cache: Path) -> None:
    began = time.monotonic()
    kill_once(child(server.url("stall")), cache, 0, signal.SIGINT)
    assert time.monotonic() - began < 8
    assert left(cache) == []


@pytest.mark.parametrize("before", [None, b"damaged"])
def test_several_processes_at_once(server: Server, cache: Path, before: bytes | None) -> None:
    if before is not None:
        put(cache / "files/set/data.bin", before)
    processes = [child(server.url("slow")) for _ in range(3)]
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
    fetch(described(server.url("good")))
    assert not dead.exists()
    assert all(folder.exists() for folder in (living, *elsewhere))
    long_ago = time.time() - 25 * 3600
    for folder in elsewhere:
        for path in (folder / "data.bin", folder):
            os.utime(path, (long_ago, long_ago))
    fetch(described())
    assert living.exists()
    assert not any(folder.exists() for folder in elsewhere)


UNSHARE = shutil.which("unshare")


@pytest.mark.skipif(UNSHARE is None or not Path("/proc/self/ns/pid").exists(), reason="needs Linux namespaces")
def test_what_lives_in_another_container_of_the_same_name_stays(tmp_path: Path) -> None:
    program = "import os, sys; from pathlib import Path; from anyshot.unfinished import unfinished_folder\n"
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


# Disks --------------------------------------------------------------------------------------------------------------


def refuse(number: int) -> Callable[..., None]:
    def refusing(*args: object, **kwargs: object) -> None:
        raise OSError(number, os.strerror(number), "where")

    return refusing


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
        fetch(described(server.url("good")), wait=0.01)
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
    process = child(server.url("good"), "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (9999, 9999))")
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
        fetch(described(server.url("good")))


# Places -------------------------------------------------------------------------------------------------------------


def test_looks_in_the_data_folder_first_then_in_the_cache(data: Path, cache: Path) -> None:
    file = described(also=("other/raw.bin", "raw.bin"))
    assert find(file) is None
    for place in (cache / "files/set/data.bin", data / "raw.bin", data / "other/raw.bin", data / "data.bin"):
        assert find(file) != place
        put(place, BODY)
        assert verified(file) == place
    assert fetch(file) == data / "data.bin"
    put(data / "set/data.bin", BODY)
    assert fetch(file) == data / "set/data.bin"


def test_wrong_content_in_the_data_folder_is_named_and_left_alone(data: Path, cache: Path, server: Server) -> None:
    bad = put(data / "set/data.bin", b"wrong")
    put(cache / "files/set/data.bin", BODY)
    assert find(described()) == bad
    with pytest.raises(DataError, match="replace it") as caught:
        fetch(described(server.url("good")))
    for part in (str(bad), SHA, hashlib.sha256(b"wrong").hexdigest()):
        assert part in str(caught.value)
    assert bad.read_bytes() == b"wrong"
    assert not server.asked


@pytest.mark.parametrize("content", [b"", b"wrong", BODY[:-1], BODY + b"0"])
def test_wrong_content_in_the_cache_is_downloaded_anew(server: Server, cache: Path, content: bytes) -> None:
    put(cache / "files/set/data.bin", content)
    assert verified(described()) is None
    assert left(cache) == []
    put(cache / "files/set/data.bin", content)
    assert fetch(described(server.url("good"))).read_bytes() == BODY


def test_a_good_file_another_process_put_meanwhile_is_not_deleted(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(cache / "files/set/data.bin", b"bad")

    def meanwhile(path: Path, inside: str) -> str:
        put(cache / "new", BODY).replace(path)
        return "0" * 64

    monkeypatch.setattr(store, "content_sha256", meanwhile)
    assert verified(described()) is None
    assert path.read_bytes() == BODY


def test_the_data_folder_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (tmp_path / "nowhere", put(tmp_path / "file", b"")):
        monkeypatch.setenv("ANYSHOT_DATA", str(place))
        with pytest.raises(DataError, match=f"ANYSHOT_DATA is {place}, which is not an existing folder"):
            fetch(described())
    monkeypatch.setenv("ANYSHOT_DATA", "")
    assert store.data_folder() is None


@pytest.mark.parametrize("variable", ["ANYSHOT_DATA", "ANYSHOT_CACHE"])
def test_a_folder_of_an_unknown_user_is_named(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "~nosuchuser/x")
    with pytest.raises(DataError, match=f"{variable} is ~nosuchuser/x, whose user is not known"):
        find(described())


def test_a_folder_that_may_not_be_searched_is_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "stat", refuse(errno.EACCES))  # tests may run as root, whom nothing is forbidden
    with pytest.raises(DataError, match=f"cannot look for {data}/set/data.bin: Permission denied"):
        find(described())


def test_a_process_without_standard_error_downloads_too(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert fetch(described(server.url("good"))).read_bytes() == BODY
    with progress("working", 3) as update:
        update(1)
    assert capsys.readouterr().out == ""


def test_the_usual_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANYSHOT_CACHE")
    assert store.cache_folder().is_absolute()
    assert "anyshot" in str(store.cache_folder())


def test_a_file_without_mirrors_says_in_three_lines_what_to_do() -> None:
    with pytest.raises(DataError) as caught:
        fetch(described(bytes=9_912_422, how_to_get="Ask\n  A. Author."))
    assert str(caught.value).splitlines() == [
        "data.bin of set (9.9 MB) is missing and may not be redistributed",
        "Ask A. Author.",
        "put data.bin into $ANYSHOT_DATA/set (ANYSHOT_DATA is not set: any folder will do)",
    ]


# Content ------------------------------------------------------------------------------------------------------------


def hashed(content: bytes, name: str, inside: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return content_sha256(put(Path(folder, name), content), inside)


def zipped(members: list[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name, (1980 + len(content) % 100, 1, 1, 0, 0, 0)), content, method)
    return buffer.getvalue()


@given(st.binary(max_size=2000), st.integers(0, 9))
def test_gzip_is_known_by_its_content(content: bytes, level: int) -> None:
    sha = hashlib.sha256(content).hexdigest()
    packed = gzip.compress(content, level, mtime=level)
    assert hashed(packed, "a.gz", "gzip") == hashed(content, "a", "gzip") == hashed(content, "a.gz", "file") == sha
    half = len(content) // 2
    assert hashed(gzip.compress(content[:half]) + gzip.compress(content[half:]), "a.gz", "gzip") == sha


NAMES = st.text("ab/.é1", min_size=1, max_size=6).filter(lambda name: not name.endswith("/"))
MEMBERS = st.dictionaries(NAMES, st.binary(max_size=50), min_size=1, max_size=5)


@given(MEMBERS, st.randoms(use_true_random=False), st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))
def test_zip_is_known_by_its_members(members: dict[str, bytes], order: random.Random, method: int) -> None:
    packed = list(members.items())
    sha = hashed(zipped(packed), "a.zip", "zip")
    again = [*packed, ("a folder/", b"")]
    order.shuffle(again)
    assert hashed(zipped(again, method), "a.zip", "zip") == sha
    name, content = packed[0]
    changed = (name, content[:-1] + bytes([content[-1] ^ 1]) if content else b"0")
    for other in ([changed, *packed[1:]], [(name + "c", content), *packed[1:]], [*packed, ("c", b"")], packed[1:]):
        assert hashed(zipped(other), "a.zip", "zip") != sha


def test_zip_knows_where_a_name_ends_and_content_begins() -> None:
    assert hashed(zipped([("a", b"bc")]), "a.zip", "zip") != hashed(zipped([("ab", b"c")]), "a.zip", "zip")
    assert hashed(zipped([("a", b""), ("b", b"")]), "a.zip", "zip") != hashed(zipped([("a", b"b")]), "a.zip", "zip")


def test_zip_made_on_a_mac_is_the_same() -> None:
    plain = [("a/1.png", b"one"), ("a/2.png", b"two")]
    added = [("__MACOSX/a/._1.png", b"mac"), ("a/.DS_Store", b"finder")]
    assert hashed(zipped(plain + added), "a.zip", "zip") == hashed(zipped(plain), "a.zip", "zip")


@given(st.data(), st.sampled_from(["gzip", "zip"]))
def test_damaged_archives_never_pass_and_raise_nothing_else(data: st.DataObject, inside: str) -> None:
    packed = bytearray(gzip.compress(BODY[:200]) if inside == "gzip" else zipped([("a", BODY[:200]), ("b", b"1" * 99)]))
    sha = hashed(bytes(packed), "a.gz", inside)
    if data.draw(st.booleans()):
        del packed[data.draw(st.integers(0, len(packed) - 1)) :]
        content_matters = True
    else:
        position = data.draw(st.integers(0, len(packed) - 1))
        packed[position] ^= data.draw(st.integers(1, 255))
        content_matters = False  # a date may change without harm
    try:
        same = hashed(bytes(packed), "a.gz", inside) == sha
    except DataError:
        return
    assert not (same and content_matters)


@pytest.mark.parametrize(
    ("inside", "content"),
    [
        ("gzip", b"not gzip"),
        ("gzip", gzip.compress(BODY)[:-9]),
        ("gzip", gzip.compress(BODY)[:100] + bytes(500)),
        ("zip", b"not zip"),
        ("zip", b""),
        ("zip", zipped([("a", BODY)])[:-9]),
        ("zip", zipped([("a", BODY)], zipfile.ZIP_STORED).replace(BODY, BODY[::-1])),
    ],
)
def test_damaged_archives(server: Server, data: Path, cache: Path, inside: str, content: bytes) -> None:
    file = described(name="data.gz", inside=inside, sha256="0" * 64)
    mine = put(data / "data.gz", content)
    with pytest.raises(DataError, match="damaged") as caught:
        content_sha256(mine, inside)
    assert caught.value.__cause__ is not None
    with pytest.raises(DataError, match=f"{mine} is not the data.gz of set"):
        fetch(file)
    mine.unlink()
    put(cache / "files/set/data.gz", content)
    with pytest.raises(DataError, match="is missing"):
        fetch(file)
    assert left(cache) == []


def test_an_uncompressed_file_under_another_name_will_do(data: Path) -> None:
    file = described(name="images.gz", inside="gzip", also=("raw/images",))
    place = put(data / "raw/images", BODY)
    assert fetch(file) == place


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"cannot read {tmp_path}"):
        content_sha256(tmp_path, "file")
    with pytest.raises(InputError, match='"file", "gzip" or "zip", got \'tar\''):
        content_sha256(tmp_path, "tar")
