"""Names of folders to write into."""

from __future__ import annotations

import re
from pathlib import Path

from anyshot.errors import InputError


def check_folder(name: str, value: object) -> Path:
    """The path of a folder to write into; refused if it can be none. Nothing is looked up.

    >>> check_folder("out", "runs/first").name
    'first'
    """
    if not isinstance(value, str | Path):
        raise InputError(f"{name} must be a folder, as a string or a Path, got {value!r}")
    text = str(value)
    if not text.strip() or "\0" in text:
        raise InputError(f"{name} must be the name of a folder, got {text!r}; the current one is '.'")
    if url := re.match(r"([A-Za-z][\w+.-]+):/", text):
        raise InputError(
            f"{name} must be a folder of this machine or of a network file system, got {text!r}: a run needs locks and "
            f"renames, which {url[1]} does not have; a sweep can copy its runs there (--mirror)"
        )
    return Path(value)
