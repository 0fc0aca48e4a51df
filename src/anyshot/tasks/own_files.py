"""Files of the user's own that replace those of the catalogue, in the layout in which they are usually downloaded."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from anyshot.errors import DataError
from anyshot.tasks.catalogue import Entry
from anyshot.tasks.store import data_folder, find, path_exists


def find_own_files(entry: Entry) -> Path | None:
    """The path of the user's own files; None if there are none, or if all files of the catalogue are here."""
    folder = data_folder()
    if not entry.instead or folder is None or not path_exists(folder / entry.instead):
        return None
    return folder / entry.instead if any(find(file) is None for file in entry.files) else None


def hash_own_files(path: Path) -> str:
    """A hash of the names, sizes and times of the files, and of the content of the csv files beside them."""
    try:
        if not path.is_dir():
            parts = [_describe(path.name, path.stat())]
        else:
            with os.scandir(path) as images:
                parts = sorted(_describe(image.name, image.stat()) for image in images)
            tables = sorted(path.parent.glob("*.csv"))
            parts += [f"{table.name} {hashlib.sha256(table.read_bytes()).hexdigest()}" for table in tables]
    except OSError as error:
        raise DataError(f"cannot read {error.filename or path}: {error.strerror}; make it readable") from error
    return hashlib.sha256("\n".join(parts).encode(errors="surrogateescape")).hexdigest()


def _describe(name: str, status: os.stat_result) -> str:
    return f"{name} {status.st_size} {status.st_mtime_ns}"
