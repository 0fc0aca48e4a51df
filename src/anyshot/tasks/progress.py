"""How far a long piece of work is: a bar on a terminal, a line at its start and end elsewhere; always on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Update = Callable[[int], None]


def tell(line: str) -> None:
    """A line on standard error, if there is one: a process may have been started without."""
    if sys.stderr is not None:
        print(line, file=sys.stderr, flush=True)


def on_terminal() -> bool:
    """Whether a bar can be drawn."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def progress(what: str, total: int, *, download: bool = False) -> Iterator[Update]:
    """Show that `what` is under way; call what this gives with the number of items (or bytes) done so far."""
    if not on_terminal():
        started = time.monotonic()
        tell(what if download else f"{what} ...")
        yield lambda _: None
        if not download:  # its mirror may have failed, and the next one is told of
            tell(f"{what}: done in {time.monotonic() - started:.0f} s")
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    count = DownloadColumn() if download else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=download) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)
