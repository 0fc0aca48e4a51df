"""How far a long piece of work is: a bar on a terminal, a line at its start and end elsewhere; always on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]


@contextmanager
def progress(what: str, total: int) -> Iterator[Advance]:
    """Show that `what` is under way; call what this gives with the number of items just done."""
    if not sys.stderr.isatty():
        started = time.monotonic()
        print(f"{what} ...", file=sys.stderr, flush=True)
        yield lambda _: None
        print(f"{what}: done in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)
