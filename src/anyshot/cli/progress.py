"""How far a run is: a live line with a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from anyshot.runs.settings import Settings

SELDOM = 10.0  # seconds between two plain lines about what has not ended


def say(line: str) -> None:
    """A line with the time, at once."""
    print(f"[{time.strftime('%H:%M:%S')}] {line}", flush=True)


def tasks_in(settings: Settings) -> int:
    """How many tasks the stream has; the task set is looked into only if the settings do not say it."""
    from anyshot.tasks.catalogue import entry
    from anyshot.tasks.load import built_tasks

    data, wanted = settings.data, settings.protocol.tasks
    return wanted or len(built_tasks(data.name, entry(data.name), data.seed, data.settings)[0].task_names)


class Progress:
    """Tells how a run is getting on; used by `with`, it is what `run_online` takes as `watch`.

    Args:
        name: what is run, such as "ftml-vs, seed 0".
        tasks: in its stream.
        quiet: say nothing.
        pause: seconds before another task that has ended gets a plain line, at least.
        left: seconds left when a fraction of the run is done; without it, those of the run at its pace so far.
    """

    def __init__(
        self,
        name: str,
        tasks: int,
        *,
        quiet: bool = False,
        pause: float = 0.0,
        left: Callable[[float], float | None] | None = None,
    ) -> None:
        self.name, self.tasks, self.quiet, self.pause, self.left = name, tasks, quiet, pause, left or self._left
        self.first: int | None = None  # task of this process; those before it were done earlier
        self.started = self.spoken = time.monotonic()
        self.bar: Any = None
        self.row: Any = None

    def __enter__(self) -> Progress:
        if not self.quiet and sys.stdout is not None and sys.stdout.isatty():
            self._draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def __call__(self, what: str, news: dict[str, Any]) -> None:
        """Tell what is worth telling."""
        if what == "compiling":
            self._tell("compiling (10 to 60 seconds the first time)")
        elif what == "compiled":
            self.started = time.monotonic()
            self._tell(f"compiled in {news['seconds']:.0f} s")
        elif what == "evaluated" and "pretraining" in news:
            self._tell(f"pretraining: loss {news.get('train_loss', float('nan')):.3f}", SELDOM)
        elif what == "evaluated":
            self._evaluated(news)

    def _left(self, fraction: float) -> float | None:
        return (time.monotonic() - self.started) * (1 - fraction) / fraction if fraction else None

    def _evaluated(self, news: dict[str, Any]) -> None:
        if self.first is None:
            self.first = news["position"]
        done = news["position"] + news["ended"]
        left = self.left((done - self.first) / (self.tasks - self.first))
        score = f"accuracy {news['accuracy']:.2f}" if "accuracy" in news else f"loss {news['loss']:.3f}"
        if self.bar is not None:
            told = [f"{done}/{self.tasks} tasks", f"{news['shots']} shots", score, f"{news['total_labels']:,} labels"]
            told += [f"{about(left)} left"] if left else []
            self.bar.update(self.row, completed=done, told=", ".join(told))
            return
        state = ("mastered" if news["mastered"] else "given up") if news["ended"] else "so far"
        line = (
            f"task {news['position'] + 1} of {self.tasks} ({news['task']}): {state} at step {news['step']} with "
            f"{news['labels']} labels, {news['shots']} shots, {score}; in all {news['total_labels']:,} labels, loss "
            f"{news['total_loss']:,.1f}"
        )
        self._tell(line + (f"; about {about(left)} left" if left else ""), self.pause if news["ended"] else SELDOM)

    def _tell(self, line: str, pause: float = 0.0) -> None:
        if self.bar is not None:
            self.bar.update(self.row, told=line)
        elif not self.quiet and time.monotonic() - self.spoken >= pause:
            self.spoken = time.monotonic()
            say(f"{self.name}: {line}")

    def _draw(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar
        from rich.table import Column

        console = Console()
        if console.is_dumb_terminal:  # it cannot go back to the beginning of a line
            return
        name, told = (TextColumn(f"{{task.{field}}}", markup=False) for field in ("description", "fields[told]"))
        flexible = BarColumn(bar_width=None, table_column=Column(ratio=1, max_width=40))
        columns = (name, flexible, told) if console.width >= 90 else (name, told)  # where the words need all the room
        self.bar = Bar(*columns, console=console, expand=True)
        self.row = self.bar.add_task(self.name, total=self.tasks, told="loading")
        self.bar.start()


def about(seconds: float) -> str:
    """A duration, as exactly as a guess deserves.

    >>> about(38.2), about(200.0), about(7500.0)
    ('38 s', '3 min', '2 h 5 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
