"""Files of the user's own that stand in for those of the catalogue, in the layout one downloads them in oneself."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from anyshot.errors import DataError
from anyshot.tasks.catalogue import Entry
from anyshot.tasks.store import data_folder, find, there


def stand_in(one: Entry) -> Path | None:
    """The path that stands in for the files, if it is there and they are not all."""
    folder = data_folder()
    path = folder / one.instead if folder and one.instead else None
    return path if path and there(path) and any(find(file) is None for file in one.files) else None


def digest(path: Path) -> str:
    """Changes with the files, of which it looks at no more than names, sizes and times, and the tables beside them."""
    try:
        if not path.is_dir():
            parts = [_line(path.name, path.stat())]
        else:
            with os.scandir(path) as images:
                parts = sorted(_line(image.name, image.stat()) for image in images)
            tables = sorted(path.parent.glob("*.csv"))
            parts += [f"{table.name} {hashlib.sha256(table.read_bytes()).hexdigest()}" for table in tables]
    except OSError as error:
        raise DataError(f"cannot read {error.filename or path}: {error.strerror}; make it readable") from error
    return hashlib.sha256("\n".join(parts).encode(errors="surrogateescape")).hexdigest()


def _line(name: str, about: os.stat_result) -> str:
    return f"{name} {about.st_size} {about.st_mtime_ns}"
