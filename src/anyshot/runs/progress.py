"""How far a run is: a live line with a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from anyshot.runs.records import Evaluation, Event, Pretraining, Trial

if TYPE_CHECKING:
    from anyshot.runs.experiment import Experiment

SELDOM = 10.0  # seconds between two plain lines about what has not ended


def print_line(line: str) -> None:
    """Print a line with the time, at once."""
    print(f"[{time.strftime('%H:%M:%S')}] {line}", flush=True)


class Progress:
    """Shows how a run is getting on. Used by `with`, it is what `run` calls with what happens.

    Args:
        experiment: that is run.
        quiet: whether to print nothing.
        pause: seconds before another task that has ended gets a plain line, at least.
        left: seconds left when a fraction of the run is done; by default estimated from the run's own pace.
    """

    def __init__(
        self,
        experiment: Experiment,
        *,
        quiet: bool = False,
        pause: float = 0.0,
        left: Callable[[float], float | None] | None = None,
    ) -> None:
        protocol = experiment.protocol
        self.name = f"{experiment.learner.name}, seed {experiment.seed}"
        if protocol.kind == "online":
            self.total = protocol.num_tasks or experiment.tasks.num_tasks  # type: ignore[union-attr]
        else:
            self.total = protocol.steps  # type: ignore[union-attr]
        self.quiet, self.pause, self.left = quiet, pause, left or self._left
        self.first: int | None = None  # where this process began; what was before was done earlier
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

    def __call__(self, what: str, news: Any) -> None:
        """Show what is worth showing."""
        if what == "compiling":
            self._show("compiling (10 to 60 seconds the first time)")
        elif what == "compiled":
            self.started = time.monotonic()
            self._show(f"compiled in {news:.0f} s")
        elif what == "testing":
            self._show(f"testing on {news} unseen tasks")
        elif what == "tested":
            self._show(f"testing: {news:,} episodes of each number of shots so far", SELDOM)
        elif what == "event":
            self._show_event(news)

    def _show_event(self, event: Event) -> None:
        if isinstance(event, Pretraining):
            fits = f": loss {event.train['loss']:.3f}" if "loss" in event.train else ""
            self._show(f"pretraining{fits}", SELDOM)
        elif isinstance(event, Evaluation):
            done = event.position + event.ended
            short, line = _describe_evaluation(event, done, self.total)
            self._advance(event.position, done, short, line, self.pause if event.ended else SELDOM)
        elif isinstance(event, Trial):
            loss = f"loss {event.train.get('loss', float('nan')):.3f}"
            score = f"validation score {event.score:.3f}" if event.score is not None else loss
            best = " (the best so far)" if event.better and event.score is not None else ""
            line = f"step {event.step:,} of {self.total:,}: {score}"
            self._advance(0, event.step, line, line + best, 0.0 if event.ended else SELDOM)

    def _advance(self, begun: int, done: int, short: str, line: str, pause: float) -> None:
        if self.first is None:
            self.first = begun
        left = self.left((done - self.first) / max(1, self.total - self.first))
        until = f"about {format_duration(left)} left" if left else ""
        if self.bar is not None:
            self.bar.update(self.row, completed=done, status=", ".join(filter(None, [short, until])))
        else:
            self._show("; ".join(filter(None, [line, until])), pause)

    def _show(self, line: str, pause: float = 0.0) -> None:
        if self.bar is not None:
            self.bar.update(self.row, status=line)
        elif not self.quiet and time.monotonic() - self.spoken >= pause:
            self.spoken = time.monotonic()
            print_line(f"{self.name}: {line}")

    def _left(self, fraction: float) -> float | None:
        return (time.monotonic() - self.started) * (1 - fraction) / fraction if fraction else None

    def _draw(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar
        from rich.table import Column

        console = Console()
        if console.is_dumb_terminal:  # it cannot go back to the beginning of a line
            return
        name, status = (TextColumn(f"{{task.{field}}}", markup=False) for field in ("description", "fields[status]"))
        flexible = BarColumn(bar_width=None, table_column=Column(ratio=1, max_width=40))
        columns = (name, flexible, status) if console.width >= 90 else (name, status)
        self.bar = Bar(*columns, console=console, expand=True)
        self.row = self.bar.add_task(self.name, total=self.total, status="loading")
        self.bar.start()


def format_duration(seconds: float) -> str:
    """A duration, rounded as a guess should be.

    >>> format_duration(38.2), format_duration(200.0), format_duration(7500.0)
    ('38 s', '3 min', '2 h 5 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _describe_evaluation(event: Evaluation, done: int, tasks: int) -> tuple[str, str]:
    """A short line for the bar and a longer one for a log."""
    score = f"accuracy {event.accuracy:.2f}" if event.accuracy is not None else f"loss {event.loss:.3f}"
    state = ("mastered" if event.mastered else "given up") if event.ended else "so far"
    return (
        f"{done}/{tasks} tasks, {event.shots} shots, {score}, {event.total_labels:,} labels",
        f"task {event.position + 1} of {tasks} ({event.task}): {state} at step {event.step} with {event.labels} "
        f"labels, {event.shots} shots, {score}; in all {event.total_labels:,} labels, loss {event.total_loss:,.1f}",
    )
