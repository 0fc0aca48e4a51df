"""`anyshot report`: runs as a page with figures."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import tyro

Folders = Annotated[
    tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DIR...", help_behavior_hint="(one or more)")
]
Against = Annotated[str | None, tyro.conf.arg(metavar="LEARNER", help_behavior_hint="")]


def report(folders: Folders, out: Path = Path("report.html"), against: Against = None) -> None:
    """Write one page about runs: table, figures, settings and the commands to repeat them; it needs no network.

    The figures also come as PNG and SVG in a folder beside it, report_files for report.html.

    Args:
        folders: run folders, or folders that hold run folders.
        out: the page to write (.html); it is replaced if it is there.
        against: the learner that the table takes differences to; toe if it is there (offline: maml), else the first.
    """
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # the contact sheet needs no GPU, which may be busy with runs
    from anyshot.report.collected import collect
    from anyshot.report.comparison import compare
    from anyshot.report.page import check_out, write_report
    from anyshot.report.tables import shown

    check_out(out)
    comparisons = compare(collect(folders), against)
    beside = write_report(comparisons, out)
    for comparison in comparisons:
        for sentence in shown(comparison).remarks:
            print(f"anyshot: note: {sentence}", file=sys.stderr)
    print(f"report: {out}, and its figures as PNG and SVG in {beside}")


def main(words: list[str]) -> None:
    """Run the command."""
    tyro.cli(report, args=words, prog="anyshot report")
