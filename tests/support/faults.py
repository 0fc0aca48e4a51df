"""Crashes and full disks at a chosen call of the system, and damaged files."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

CHANGES = ("open", "write", "fsync", "ftruncate", "replace", "mkdir", "unlink", "rmdir")


class Crash(BaseException):
    """The process ends here."""


@contextmanager
def fault(number: int, error: BaseException) -> Iterator[list[str]]:
    """The system's calls that change something fail from number `number` on, a write after half of it.

    A crash stops everything; on a full or read-only disk one can still look, and remove on the former.
    """
    calls: list[str] = []
    fails = {Crash: CHANGES, OSError: CHANGES[:6]}[type(error)]

    def failing(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            looks = name == "open" and not args[1] & os.O_CREAT
            if name not in fails or (looks and isinstance(error, OSError)):
                return real(*args, **more)
            calls.append(name)
            if len(calls) < number:
                return None if name == "fsync" else real(*args, **more)
            if len(calls) == number and name == "write":
                real(args[0], args[1][: len(args[1]) // 2])
            raise error

        return call

    def reading(path: Path, mode: str = "r", *args: Any, **more: Any) -> Any:
        assert not set(mode) & set("wax+"), f"{path} is written where no fault can hit"
        return builtin(path, mode, *args, **more)

    builtin = io.open
    calls_of_os = {name: failing(name, getattr(os, name)) for name in CHANGES}
    with patch.multiple(os, **calls_of_os), patch.object(io, "open", reading):
        yield calls


def flips(data: bytes, count: int) -> Iterator[bytes]:
    """One bit flipped, in every byte or in `count` of them evenly spread."""
    places = range(len(data)) if count >= len(data) else np.linspace(0, len(data) - 1, count).astype(int)
    for place in places:
        yield data[:place] + bytes([data[place] ^ 1 << (place % 8)]) + data[place + 1 :]


def damages(data: bytes, count: int) -> Iterator[bytes | None]:
    """Deleted, truncated, a byte too many, one bit flipped."""
    yield None
    for length in sorted({0, 1, len(data) // 2, len(data) - 1} - {len(data)}):
        yield data[:length]
    yield data + b"\n"
    yield from flips(data, count)


def put(path: Path, data: bytes | None) -> None:
    if data is None:
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(data)
