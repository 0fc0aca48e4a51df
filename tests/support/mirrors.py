"""A loopback server that does everything wrong that mirrors do, and the description of the file it serves."""

from __future__ import annotations

import gzip
import hashlib
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from anyshot.tasks.store import DataFile

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


def describe(*urls: str, **fields: object) -> DataFile:
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


def refuse(number: int) -> Callable[..., None]:
    """A function that fails with this error of the system."""

    def refusing(*args: object, **kwargs: object) -> None:
        raise OSError(number, os.strerror(number), "where")

    return refusing


CHILD = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored in what runs in the background
from anyshot.tasks import store
from anyshot.tasks.content import content_sha256
heavy = {"jax", "numpy", "equinox", "pooch", "requests", "rich"} & set(sys.modules)
assert not heavy, heavy
exec(sys.argv[3])
file = store.DataFile("set", "data.bin", sys.argv[1], 300_000, urls=(sys.argv[2],))
try:
    path = store.fetch(file, timeout=20, wait=0.01)
except store.DataError as error:
    sys.exit(f"DataError: {error}")
assert path.stat().st_size == 300_000 and content_sha256(path, "file") == sys.argv[1]
"""


def start_download(url: str, before: str = "") -> subprocess.Popen[str]:
    """A process that fetches the file; `before` is Python code to run first."""
    argv = [sys.executable, "-c", CHILD, SHA, url, before]
    return subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
