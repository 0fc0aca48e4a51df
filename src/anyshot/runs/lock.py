"""One writer per run folder."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anyshot.errors import DataError, InputError
from anyshot.runs.files import AGAIN, write_all, writing

LOCK = "lock"


class Locked(DataError):
    """Another process writes the folder."""


@contextmanager
def only_writer(folder: Path, again: str = AGAIN, own: str = "wait for it or stop it") -> Iterator[None]:
    """Be the only writer of `folder`; raises `DataError` if another process is.

    The system holds the lock and lets go of it when the process ends, however it ends: the lock of a dead process is
    free. The file stays for good: whoever removed it could remove one that another process had just locked. It says
    who holds the lock, for the message only. `again` is what to do once a full or read-only disk can be written, `own`
    what to do if it is this process that holds the lock.
    """
    try:
        import fcntl
    except ImportError as error:
        raise DataError(f"cannot lock {folder}: this system has no flock; use Linux, macOS or WSL") from error
    if (folder / LOCK).is_symlink():
        raise InputError(f"{folder / LOCK} is a link; remove it, as a run writes into its own folder only")
    with writing(folder, again):
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if (holder := _holder(handle)) == _name_process():
                raise DataError(f"{folder} is open already in this process ({holder}); {own}") from None
            raise Locked(f"{folder} is being written by {holder}; wait for it or stop it") from None
        except OSError as error:
            raise DataError(
                f"cannot lock {folder}: {error.strerror or error}; its file system may have no locks: choose a folder "
                "on another one, such as a local disk"
            ) from error
        with writing(folder, again):
            os.ftruncate(handle, 0)
            write_all(handle, f"{_name_process()}\n".encode())
        yield
    finally:
        os.close(handle)


def _name_process() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _holder(handle: int) -> str:
    said = os.read(handle, 1000).decode(errors="replace").strip()
    # It is empty for a moment, between taking the lock and saying who took it.
    return said if re.fullmatch(r"process \d+ on \S+", said) else "another process"
