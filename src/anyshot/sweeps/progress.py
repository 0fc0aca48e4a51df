"""How far a sweep is: a bar and a line for each run on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from pydantic import ValidationError

from anyshot.runs.progress import format_duration, print_line
from anyshot.runs.reading import EVENTS_FILE
from anyshot.runs.records import EVENTS, Event, Pretraining, Score, Trial
from anyshot.sweeps.execute import Ended
from anyshot.sweeps.plan import Leg
from anyshot.sweeps.results import FolderResults

LINE = 100_000  # bytes; no event is longer
ROWS = 16  # runs that are shown at once
LOOK_SECONDS, REPORT_SECONDS = 1.0, 60.0


class SweepProgress:
    """Shows how a sweep is getting on; used by `with`.

    Args:
        results: where the runs are.
        total: runs in all, at most.
        done: runs that are finished already.
        name: what to call a leg.
        quiet: whether to print nothing.
    """

    def __init__(
        self, results: FolderResults, total: int, done: int, name: Callable[[Leg], str] = str, quiet: bool = False
    ) -> None:
        self.name = name
        self.results, self.total, self.first, self.done, self.quiet = results, total, done, done, quiet
        self.started = self.looked = time.monotonic()
        self.live: dict[Leg, Any] = {}
        self.bar: Any = None
        self.row: Any = None

    def __enter__(self) -> SweepProgress:
        if not self.quiet and sys.stdout is not None and sys.stdout.isatty():
            self._draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def begin(self, leg: Leg) -> None:
        """A leg was handed to the workers."""
        self.live[leg] = None
        before = describe_progress(self.results.folder(leg.trial))
        self._log(f"{self.name(leg)}: " + (f"goes on after {before}" if before else "begins"))

    def end(self, ended: Ended) -> None:
        """A leg has ended."""
        row = self.live.pop(ended.leg, None)
        if row is not None:
            self.bar.remove_task(row)
        finished = self.results.loss(ended.leg.trial, None) is not None
        self.done += finished
        progress = describe_progress(self.results.folder(ended.leg.trial)) or "the beginning"
        name = self.name(ended.leg)
        if ended.kind == "done":
            how = "done" if finished else "paused"
            self._log(f"{name}: {how}, {progress}; {self._describe_all()}")
        elif ended.kind == "stopped":
            self._log(f"{name}: stopped at {progress}")
        else:
            self.say(f"{name}: {ended.kind}: {ended.why}")
        self._update()

    def tick(self) -> None:
        """Some time has passed."""
        now = time.monotonic()
        if now - self.looked >= (LOOK_SECONDS if self.bar is not None else REPORT_SECONDS):
            self.looked = now
            for leg in list(self.live)[:ROWS]:
                self._show(leg, describe_progress(self.results.folder(leg.trial)) or "starting")
            self._update()

    def say(self, line: str) -> None:
        """Something is worth a line, also beside a bar."""
        if self.bar is not None:
            self.bar.console.print(line, markup=False, highlight=False)
        else:
            self._log(line)

    def _log(self, line: str) -> None:
        if self.bar is None and not self.quiet:
            print_line(line)

    def _show(self, leg: Leg, status: str) -> None:
        if self.bar is None:
            self._log(f"{self.name(leg)}: {status}")
        elif self.live[leg] is None:
            self.live[leg] = self.bar.add_task(f"  {self.name(leg)}", total=None, status=status, visible=True)
        else:
            self.bar.update(self.live[leg], status=status)

    def _update(self) -> None:
        if self.bar is not None:
            self.bar.update(self.row, completed=self.done, status=self._describe_all())

    def _describe_all(self) -> str:
        ended = self.done - self.first
        left = (time.monotonic() - self.started) * (self.total - self.done) / ended if ended else 0.0
        return f"{self.done}/{self.total} runs finished" + (f", about {format_duration(left)} left" if left else "")

    def _draw(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column

        console = Console()
        if console.is_dumb_terminal:  # it cannot go back to the beginning of a line
            return
        name = TextColumn("{task.description}", markup=False, table_column=Column(ratio=2, no_wrap=True))
        status = TextColumn("{task.fields[status]}", markup=False, table_column=Column(ratio=2, no_wrap=True))
        self.bar = Progress(name, BarColumn(bar_width=20), status, console=console, expand=True)
        self.row = self.bar.add_task("sweep", total=self.total, completed=self.done, status="starting")
        self.bar.start()


def last_event(folder: Path) -> Event | None:
    """The last event in a run's log, which may be growing; None if there is none yet."""
    if not (folder / EVENTS_FILE).is_file():
        return None
    with (folder / EVENTS_FILE).open("rb") as log:
        log.seek(max(0, log.seek(0, 2) - LINE))
        lines = log.read().split(b"\n")[:-1]
    for line in reversed(lines):
        try:
            return EVENTS.validate_json(line)
        except ValidationError:  # cut off, and written again when the run goes on
            continue
    return None


def describe_progress(folder: Path) -> str | None:
    """How far a run is; None if it has not begun."""
    event = last_event(folder)
    if event is None:
        return None
    if isinstance(event, Pretraining):
        return "pretraining"
    if isinstance(event, Score):
        return "testing"
    if isinstance(event, Trial):
        return f"step {event.step:,}"
    return f"{event.position + event.ended} tasks, {event.total_labels:,} labels"
