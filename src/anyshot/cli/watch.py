"""`anyshot watch`: the curves of runs in the terminal, while they run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from anyshot.errors import DataError, InputError

if TYPE_CHECKING:
    from rich.console import Console

    from anyshot.report.offline_runs import OfflineRun
    from anyshot.report.online_runs import Run

Folders = Annotated[
    tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DIR...", help_behavior_hint="(one or more)")
]


def watch(folders: Folders, every: float = 2.0, once: bool = False) -> None:
    """Show the curves of runs in the terminal while they run: cumulative loss and labels per task, a line for each run.

    Of offline runs it shows what validation gives.
    It ends when all runs are finished. Ctrl-C is the other way to leave it, with exit code 0: the runs are only read
    and go on. Where the output is no terminal it prints one picture, as with --once.

    Args:
        folders: run folders, or folders that hold run folders; those that come later are found.
        every: seconds between two pictures, 0.1 to 3600.
        once: print one picture and end.
    """
    from rich.console import Console

    from anyshot.cli.curves import pictured

    if not 0.1 <= every <= 3600:
        raise InputError(f"--every must be 0.1 to 3600 seconds, got {every}")
    console = Console()
    if not once and console.is_terminal:
        try:
            _live(console, folders, every)
        except KeyboardInterrupt:  # how one leaves
            return
    else:
        runs, waiting = _read(folders, {})
        if not runs:
            raise InputError(waiting[0])
        console.print(pictured(runs, waiting, console.width, None, _colours(console)))


def _live(console: Console, folders: Sequence[Path], every: float) -> None:
    from rich.live import Live

    from anyshot.cli.curves import pictured

    finished: dict[Path, Run | OfflineRun] = {}
    wrong: str | None = None
    with Live(console=console, auto_refresh=False) as live:
        while True:
            try:
                runs, waiting = _read(folders, finished)
                wrong = None
            except DataError as error:
                if str(error) == wrong:  # once is no proof: a run that is being resumed changes under our eyes
                    raise
                wrong = str(error)
            else:
                picture = pictured(runs, waiting, console.width, console.height, _colours(console))
                live.update(picture, refresh=True)
                if not waiting and all(run.finished for run in runs):
                    return
            time.sleep(every)


def _read(folders: Sequence[Path], finished: dict[Path, Run | OfflineRun]) -> tuple[list[Run | OfflineRun], list[str]]:
    """The runs there are now, and a sentence for each folder that has none yet; `finished` is kept up to date."""
    from anyshot.report.collected import read_run
    from anyshot.report.folders import run_folders

    found, waiting = [], []
    for place in folders or run_folders(folders):  # which says that none was given
        try:
            found += run_folders([place])
        except InputError as why:
            if not place.is_dir():
                raise
            waiting.append(str(why))
    runs = []
    for place in dict.fromkeys(found):
        run = finished.get(place) or read_run(place)
        if run.finished:
            finished[place] = run
        runs.append(run)
    return runs, waiting


def _colours(console: Console) -> bool:
    return console.color_system is not None and not console.no_color


def main(words: list[str]) -> None:
    """Run the command."""
    tyro.cli(watch, args=words, prog="anyshot watch")
