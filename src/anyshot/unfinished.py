"""A folder to write in before its content is moved into place, so that nothing half-written has a final name."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


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
