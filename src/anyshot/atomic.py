"""Files and folders that are whole or not there: nothing half-written has a final name."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from anyshot.errors import InputError


@contextmanager
def unfinished_folder(parent: Path) -> Iterator[Path]:
    """A folder in `parent` to write in before moving the result into place; gone afterwards, whatever happens."""
    parent.mkdir(parents=True, exist_ok=True)
    remove_unfinished(parent)
    folder = parent / f".unfinished-{os.getpid()}-{_here()}-{secrets.token_hex(4)}"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_unfinished(parent: Path) -> None:
    """Remove what killed processes have left. A courtesy: what cannot be removed is no reason to fail."""
    for folder in parent.glob(".unfinished-*"):
        with suppress(OSError):
            # A cache may be shared between machines, and between containers that have the same name, whose processes
            # cannot be asked after; but a download that still lives has written something today.
            newest = max(place.stat().st_mtime for place in (folder, *folder.iterdir()))
            owner = re.fullmatch(rf"\.unfinished-(\d{{1,9}})-{re.escape(_here())}-\w+", folder.name)
            dead = owner is not None and not _lives(int(owner[1]))
            if dead or time.time() - newest > 24 * 3600:
                shutil.rmtree(folder, ignore_errors=True)


def _here() -> str:
    """Where process numbers mean something: a namespace of them (0 where the system has none) on a machine."""
    try:
        namespace = re.sub(r"\D", "", str(Path("/proc/self/ns/pid").readlink()))
    except OSError:
        namespace = ""
    return f"{namespace or 0}-{socket.gethostname()}"


def _lives(pid: int) -> bool:
    if os.name == "nt":  # where signal 0 is Ctrl-C; leftovers go by their age there
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def check_out(out: Path) -> None:
    """Raise `InputError` if `out` is there and is not a regular file, such as a folder, a link, a pipe or a device."""
    try:
        mode = out.lstat().st_mode
    except OSError:  # not there yet; whether it can be written is seen when it is
        return
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a link" if stat.S_ISLNK(mode) else "a device, pipe or socket"
        raise InputError(f"out must be a new or a regular file, but {out} is {kind}; choose another")


@contextmanager
def write_beside(out: Path) -> Iterator[Path]:
    """A folder beside `out` to write in before things are moved into place; removed afterwards, whatever happens."""
    check_out(out)
    try:
        with unfinished_folder(out.parent) as unfinished:
            yield unfinished
    except OSError as error:
        raise InputError(
            f"out must be a file that can be written, but {out} is not: {error.strerror or error}"
        ) from error


def write_text(out: Path, text: str) -> None:
    """Write a file at once, in UTF-8 with plain line ends."""
    with write_beside(out) as unfinished:
        (unfinished / out.name).write_text(text, "utf-8", newline="\n")
        (unfinished / out.name).replace(out)
