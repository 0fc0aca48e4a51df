"""One attempt at getting a file from a mirror, which ends in time whatever the mirror does."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

SLOWEST = 1024  # bytes a second; a mirror slower than this is given up


class Failed(Exception):
    """An attempt at a mirror that gave nothing of use; `final` if the next would give nothing either."""

    def __init__(self, reason: str, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


def stream(url: str, part: Path, most: int, timeout: float, update: Callable[[int], None]) -> None:
    """Write what `url` sends, at most `most` bytes, to `part`; on disk when this returns.

    Of pooch only the downloader is used: `pooch.retrieve` hashes the container rather than what is inside, and knows
    neither mirrors nor stalls. The timeout of requests is that of one read, which a byte now and then satisfies for
    hours; so a thread reads while this one watches the file grow. A thread that was given up ends at its next write.
    """
    import pooch
    import requests

    def as_sent(response: requests.Response, **_: object) -> None:
        # Else a `.gz` sent with "Content-Encoding: gzip" would be unpacked on its way.
        response.raw.headers.pop("Content-Encoding", None)
        responses.append(response)

    def read() -> None:
        identity = {"Accept-Encoding": "identity"}
        try:
            pooch.HTTPDownloader(timeout=timeout, headers=identity, hooks={"response": as_sent})(url, out, None)
        except Exception as error:  # looked at below, in the thread that asked
            raised.append(error)
        finally:
            for response in responses:  # pooch leaves them open if anything fails
                response.close()

    responses: list[requests.Response] = []
    raised: list[Exception] = []
    with part.open("wb") as out:
        thread = Thread(target=read, daemon=True)  # a daemon, or a stalled mirror would keep the process from ending
        thread.start()
        since, before = time.monotonic(), 0
        while thread.is_alive():
            thread.join(0.05)
            done, now = os.fstat(out.fileno()).st_size, time.monotonic()
            update(done)
            if done > most:
                raise Failed(f"sends more than {megabytes(most)}")
            if now - since >= timeout and thread.is_alive():
                if done - before < SLOWEST * timeout:
                    raise Failed(f"stalled: less than 1 KiB a second for {timeout:g} s")
                since, before = now, done
        for error in raised:
            # What requests raises is an OSError too, but without a number: that of the disk has one.
            if isinstance(error, OSError) and error.errno and not isinstance(error, requests.RequestException):
                raise error
            response = error.response if isinstance(error, requests.HTTPError) else None
            status = 0 if response is None else response.status_code
            cause: BaseException = error
            while cause.__context__:  # the innermost says it shortest: "[Errno 111] Connection refused"
                cause = cause.__context__
            # What a server sent may be in it: no control characters, no page of text.
            reason = f"HTTP status {status}" if status else ascii(f"{type(cause).__name__}: {cause}")[1:-1][:200]
            raise Failed(reason, final=400 <= status < 500 and status not in (408, 429)) from error
        out.flush()
        os.fsync(out.fileno())


def megabytes(count: int) -> str:
    """A number of bytes for people."""
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
