"""Files of reports: whole or not there, and a sentence if they cannot be written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anyshot.errors import InputError
from anyshot.unfinished import unfinished_folder


@contextmanager
def writing_beside(out: Path) -> Iterator[Path]:
    """A folder beside `out` to write in before things are moved into place; gone afterwards, whatever happens."""
    if out.is_dir():
        raise InputError(f"--out must be a file, {out} is a folder")
    try:
        with unfinished_folder(out.parent) as unfinished:
            yield unfinished
    except OSError as error:
        raise InputError(
            f"--out must be a file that can be written, {out} is not: {error.strerror or error}"
        ) from error


def write_text(out: Path, text: str) -> None:
    """Write a file at once, in UTF-8 with plain line ends."""
    with writing_beside(out) as unfinished:
        (unfinished / out.name).write_text(text, "utf-8", newline="\n")
        (unfinished / out.name).replace(out)
