"""`anyshot watch`: the curves of runs in the terminal, while they run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyshot.cli.options import Folders
from anyshot.errors import DataError, InputError

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console


def watch(folders: Folders, every: float = 2.0, once: bool = False) -> None:
    """Show the curves of runs in the terminal while they run.

    Online: cumulative loss and labels per task, a line for each run. Offline: the validation score. It ends when all
    runs are finished, or with Ctrl-C. The runs are only read. Where the output is not a terminal it prints one
    picture, as with --once.

    Args:
        folders: run folders, or folders that hold run folders; runs that begin later are found.
        every: seconds between two pictures, 0.1 to 3600.
        once: print one picture and end.
    """
    from rich.console import Console

    if not 0.1 <= every <= 3600:
        raise InputError(f"--every must be 0.1 to 3600 seconds, got {every}")
    console = Console()
    if not once and console.is_terminal:
        try:
            _follow(console, folders, every)
        except KeyboardInterrupt:  # this is how one leaves
            return
    else:
        from anyshot.report.terminal import draw_runs

        runs, waiting = _read(folders, {})
        if runs is None:
            raise InputError(waiting[0])
        console.print(draw_runs(runs, waiting, console.width, None, _has_colours(console)))


def _follow(console: Console, folders: Sequence[Path], every: float) -> None:
    from rich.live import Live

    from anyshot.report.terminal import draw_runs

    finished: dict[Path, pd.DataFrame] = {}
    problem: str | None = None
    with Live(console=console, auto_refresh=False) as live:
        while True:
            try:
                runs, waiting = _read(folders, finished)
                picture = draw_runs(runs, waiting, console.width, console.height, _has_colours(console))
                problem = None
            except DataError as error:
                if str(error) == problem:  # a run that is being resumed may look damaged for a moment
                    raise
                problem = str(error)
            else:
                live.update(picture, refresh=True)
                if runs is not None and not waiting and runs["finished"].all():
                    return
            time.sleep(every)


def _read(folders: Sequence[Path], finished: dict[Path, pd.DataFrame]) -> tuple[pd.DataFrame | None, list[str]]:
    """The runs there are now, None if there are none, and a sentence for each folder that has none yet.

    Args:
        folders: to look in.
        finished: tables of finished runs, which need not be read again; those that have finished are added.
    """
    import pandas as pd

    from anyshot.runs.reading import find_runs
    from anyshot.runs.table import table_of

    found: dict[Path, Path] = {}
    waiting = []
    for place in folders or find_runs(folders):  # which says that none was given
        try:
            found |= {folder.resolve(): folder for folder in find_runs([place])}
        except InputError as why:
            if not place.is_dir():
                raise
            waiting.append(str(why))
    tables = []
    for folder in found.values():
        table = finished[folder] if folder in finished else table_of([folder])
        if table["finished"].all():
            finished[folder] = table
        tables.append(table)
    return (pd.concat(tables, ignore_index=True) if tables else None), waiting


def _has_colours(console: Console) -> bool:
    return console.color_system is not None and not console.no_color
