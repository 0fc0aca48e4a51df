"""`anyshot compare` and `anyshot report`: runs as a table, and as a page with figures."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from anyshot.cli.options import Against, Folders, OutFile, hide_none

Format = Annotated[
    Literal["text", "csv", "json", "markdown", "latex"] | None,
    tyro.conf.arg(metavar="{text,csv,json,markdown,latex}", help_behavior_hint=hide_none),
]


def compare(folders: Folders, against: Against = None, format: Format = None, out: OutFile = None) -> None:  # noqa: A002
    """Compare methods over seeds: one row for each method, and its paired differences to a reference.

    A method is a learner with its settings. Runs on other tasks or under other rules come in tables of their own. Runs
    that are not finished are named and left out, unless none is finished: then the tasks that all have ended are
    compared. Offline runs have a column for each number of shots.

    Args:
        folders: run folders, or folders that hold run folders.
        against: the learner or method that differences are taken to; by default toe online and maml offline, else the
            best one.
        format: of the table; by default as the name of --out ends (.txt, .csv, .json, .md, .tex), else text.
        out: the file to write instead of printing; only a new or a regular file.
    """
    from anyshot.atomic import check_out
    from anyshot.report import compare as compare_runs
    from anyshot.report.formats import choose_format, format_comparisons, write_comparisons

    form = format or ("text" if out is None else choose_format(out))
    if out is not None:
        check_out(out)
    comparisons = compare_runs(folders, against)
    if out is None:
        print(format_comparisons(comparisons, form), end="")
    else:
        write_comparisons(comparisons, out, form)
        print(f"table: {out}")
    if form == "csv":  # which has no place for notes
        for note in (note for comparison in comparisons for note in comparison.notes):
            print(f"anyshot: note: {note}", file=sys.stderr)


def report(folders: Folders, out: Path = Path("report.html"), against: Against = None) -> None:
    """Write one page about runs: tables, figures, settings, and the commands that run them again.

    The page needs no network. The figures are also written as PNG and SVG into a folder beside it, report_files for
    report.html.

    Args:
        folders: run folders, or folders that hold run folders.
        out: the page to write (.html); only a new or a regular file.
        against: the learner or method that differences are taken to; by default toe online and maml offline, else the
            best one.
    """
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # the contact sheet needs no GPU, which may be busy with runs
    from anyshot.report import write_report

    beside = write_report(folders, out, against)
    print(f"report: {out}; its figures as PNG and SVG: {beside}")
