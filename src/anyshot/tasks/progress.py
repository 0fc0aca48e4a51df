"""Progress of long work on standard error: a bar on a terminal, elsewhere a line at its start and end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Update = Callable[[int], None]


def tell(line: str) -> None:
    """Print a line on standard error, if the process has one."""
    if sys.stderr is not None:
        print(line, file=sys.stderr, flush=True)


def on_terminal() -> bool:
    """Whether standard error is a terminal, where a bar can be drawn."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def progress(what: str, total: int, *, download: bool = False) -> Iterator[Update]:
    """Show the progress of some work inside a `with` block.

    Args:
        what: the work, such as "decoding 60,000 images".
        total: number of items, or of bytes.
        download: whether bytes are counted.

    Yields:
        a function to call with the number of items or bytes done so far.
    """
    if not on_terminal():
        started = time.monotonic()
        tell(what if download else f"{what} ...")
        yield lambda _: None
        if not download:  # a mirror may fail; the next one prints a line of its own
            tell(f"{what}: done in {time.monotonic() - started:.0f} s")
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    count = DownloadColumn() if download else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=download) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)
