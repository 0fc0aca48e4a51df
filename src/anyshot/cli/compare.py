"""`anyshot compare`: methods on the same streams, or tested on the same tasks, as a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from anyshot.errors import InputError

Folders = Annotated[
    tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DIR...", help_behavior_hint="(one or more)")
]
Against = Annotated[str | None, tyro.conf.arg(metavar="LEARNER", help_behavior_hint="")]
Format = Annotated[
    Literal["text", "csv", "json", "markdown", "latex"] | None,
    tyro.conf.arg(metavar="{text,csv,json,markdown,latex}", help_behavior_hint=""),
]
Out = Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")]


def compare(folders: Folders, against: Against = None, format: Format = None, out: Out = None) -> None:  # noqa: A002
    """Compare methods on the same streams: one row for each method, and its paired difference to a reference.

    Runs of different settings come in tables of their own. Runs that are not finished are named and left out, unless
    all are: then the tasks that all have ended are compared. Offline runs have a column for each number of shots.

    Args:
        folders: run folders, or folders that hold run folders.
        against: the learner to take differences to; toe if it is there (offline: maml), else the first.
        format: of the table; if it is not given, by the ending of --out (.txt, .csv, .json, .md, .tex), else text.
        out: the file to write instead of printing; it is replaced if it is there.
    """
    from anyshot.report.collected import collect
    from anyshot.report.comparison import compare as compared
    from anyshot.report.formats import SUFFIXES, written
    from anyshot.report.tables import shown
    from anyshot.report.writing import write_text

    form = format or ("text" if out is None else SUFFIXES.get(out.suffix.lower()))
    if form is None:
        raise InputError(f"--out must end in {', '.join(SUFFIXES)} if there is no --format, got {str(out)!r}")
    tables = [shown(comparison) for comparison in compared(collect(folders), against)]
    text = written(tables, form)
    if out is None:
        print(text, end="")
    else:
        write_text(out, text)
        print(f"table: {out}")
    if form == "csv":  # which has no place for them
        for table in tables:
            for sentence in table.remarks:
                print(f"anyshot: note: {sentence}", file=sys.stderr)


def main(words: list[str]) -> None:
    """Run the command."""
    tyro.cli(compare, args=words, prog="anyshot compare")
