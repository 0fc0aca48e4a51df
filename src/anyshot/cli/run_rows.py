"""How a row about a run begins and ends in the tables of `anyshot watch`."""

from __future__ import annotations

import time

from rich.table import Table
from rich.text import Text

from anyshot.report.folders import Opened
from anyshot.runs.reading import EVENTS

Looks = dict[str, tuple[str, str]]  # a colour, as rich knows it, and a letter for each method


def empty_table(columns: tuple[str, ...]) -> Table:
    """A table with a column for the learner and these; numbers to the right."""
    table = Table(box=None, pad_edge=False, header_style="dim", collapse_padding=True)
    table.add_column("learner", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def name(run: Opened, looks: Looks, colours: bool) -> Text:
    """The method, as its curve looks."""
    colour, letter = looks[run.learner]
    return Text(run.learner if colours else f"{letter} {run.learner}", style=colour)


def state(run: Opened) -> str:
    """Whether the run is finished, else when it has last written something; one that was stopped says nothing more."""
    if run.finished:
        return "finished"
    seconds = max(0.0, time.time() - (run.folder / EVENTS).stat().st_mtime)
    if seconds < 120:
        return f"heard {seconds:.0f} s ago"
    return f"heard {seconds / 60:.0f} min ago" if seconds < 7200 else f"heard {seconds / 3600:.0f} h ago"
