"""Files that are whole or not there, and JSON that carries its own hash."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anyshot.atomic import unfinished_folder
from anyshot.errors import DataError

AGAIN = "start the run again: it goes on from its last checkpoint"
MOST_NESTED = 50  # levels of JSON; no file of a run has as many


class Damaged(Exception):
    """Why a file must not be used."""


@contextmanager
def writing(folder: Path, again: str = AGAIN) -> Iterator[None]:
    """Turn what the system says about a full or read-only disk into a sentence that says what to do, `again` last."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"cannot write into {folder}: {error.strerror or error}; make room there or make it writable, then {again}"
        ) from error


def write_all(handle: int, data: bytes) -> None:
    """Write all of `data`: the system may take only a part at a time."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def write_durably(path: Path, data: bytes) -> None:
    """Write a new file and wait until the disk has it."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        write_all(handle, data)
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Wait until the disk knows the names in a folder; a rename is not durable before."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot do it for folders
            raise
    finally:
        os.close(handle)


def replace_file(path: Path, data: bytes) -> None:
    """Give `path` this content at once: whoever looks finds the old content or the new, never a part."""
    with unfinished_folder(path.parent) as unfinished:
        write_durably(unfinished / path.name, data)
        (unfinished / path.name).replace(path)
        sync_folder(path.parent)


def sha256(data: bytes) -> str:
    """The SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def sealed(content: Any) -> bytes:
    """Content as JSON together with its SHA-256.

    Example:
        >>> unsealed(sealed({"seed": 1}))
        {'seed': 1}
    """
    text = json.dumps(content, allow_nan=False)
    return (json.dumps({"content": content, "sha256": sha256(text.encode())}, indent=1) + "\n").encode()


def unsealed(data: bytes) -> Any:
    """What was sealed; raises `Damaged` if it is not, byte for byte, as it was written."""
    try:
        content = json.loads(data)["content"]
        # Written again it must be the same bytes: a changed space is a change, too.
        whole = sealed(content) == data
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise Damaged("it is no JSON with a hash") from error
    if not whole:
        raise Damaged("it is not as it was written")
    if not _is_flat(content, MOST_NESTED):
        raise Damaged(f"it is nested more than {MOST_NESTED} levels deep")
    return content


def _is_flat(content: Any, levels: int) -> bool:
    """Whether JSON content is nested at most so deeply; what reads it may fail on more."""
    if not isinstance(content, dict | list):
        return True
    parts = content.values() if isinstance(content, dict) else content
    return levels > 0 and all(_is_flat(part, levels - 1) for part in parts)
