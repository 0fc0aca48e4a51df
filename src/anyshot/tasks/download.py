"""One attempt to download a file from a mirror, which ends in time whatever the mirror does."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

SLOWEST = 1024  # bytes a second; an attempt at a slower mirror ends


class Failed(Exception):
    """An attempt failed; `final` says that another attempt at the same mirror would fail too."""

    def __init__(self, reason: str, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


def stream(url: str, part: Path, most: int, timeout: float, update: Callable[[int], None]) -> None:
    """Download `url` to the file `part`, which is flushed to the disk when this returns.

    `pooch.HTTPDownloader` does the transfer. `pooch.retrieve` does not fit: it hashes the container and not its
    content, and it knows neither mirrors nor stalls. The timeout of requests is per read, so a mirror that sends a byte
    now and then would last for hours. Therefore a thread reads while this one watches the file grow. A thread whose
    attempt was given up ends at its next write.

    Args:
        url: of the file on a mirror.
        part: the file to write.
        most: bytes after which the attempt fails.
        timeout: seconds without an answer, or slower than 1 KiB a second, after which the attempt fails.
        update: called with the number of bytes so far.
    """
    import pooch
    import requests

    def keep_encoding(response: requests.Response, **_: object) -> None:
        # Otherwise requests would unpack a `.gz` file that is sent with "Content-Encoding: gzip".
        response.raw.headers.pop("Content-Encoding", None)
        responses.append(response)

    def read() -> None:
        identity = {"Accept-Encoding": "identity"}
        try:
            pooch.HTTPDownloader(timeout=timeout, headers=identity, hooks={"response": keep_encoding})(url, out, None)
        except Exception as error:  # handled below, in the calling thread
            raised.append(error)
        finally:
            for response in responses:  # pooch leaves them open after an error
                response.close()

    responses: list[requests.Response] = []
    raised: list[Exception] = []
    with part.open("wb") as out:
        thread = Thread(target=read, daemon=True)  # a daemon does not keep the process from ending
        thread.start()
        since, before = time.monotonic(), 0
        while thread.is_alive():
            thread.join(0.05)
            done, now = os.fstat(out.fileno()).st_size, time.monotonic()
            update(done)
            if done > most:
                raise Failed(f"sends more than {format_bytes(most)}")
            if now - since >= timeout and thread.is_alive():
                if done - before < SLOWEST * timeout:
                    raise Failed(f"stalled: less than 1 KiB a second for {timeout:g} s")
                since, before = now, done
        for error in raised:
            # An error of the disk has a number. Those of requests are OSErrors too, but have none.
            if isinstance(error, OSError) and error.errno and not isinstance(error, requests.RequestException):
                raise error
            response = error.response if isinstance(error, requests.HTTPError) else None
            status = 0 if response is None else response.status_code
            cause: BaseException = error
            while cause.__context__:  # the innermost is the shortest: "[Errno 111] Connection refused"
                cause = cause.__context__
            # The text may come from the server: escape control characters, and shorten it.
            reason = f"HTTP status {status}" if status else ascii(f"{type(cause).__name__}: {cause}")[1:-1][:200]
            raise Failed(reason, final=400 <= status < 500 and status not in (408, 429)) from error
        out.flush()
        os.fsync(out.fileno())


def format_bytes(count: int) -> str:
    """A number of bytes as text, such as 9.9 MB."""
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
