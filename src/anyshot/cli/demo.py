"""`anyshot demo`: what variable-shot online learning buys, in about two minutes and without data or GPU."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from anyshot.cli.device import use_device
from anyshot.cli.progress import Progress, say, tasks_in
from anyshot.errors import InputError
from anyshot.runs.presets import preset
from anyshot.runs.reading import SUMMARY
from anyshot.runs.settings import Settings
from anyshot.unfinished import unfinished_folder

if TYPE_CHECKING:
    from anyshot.report.online_comparison import Comparison

LEARNERS = ("toe", "ftml", "ftml-vs")
# What compiling and a run of each takes on two idle cores, and drawing the report, to guess how much time is left.
SECONDS, DRAWING = {"toe": (7.0, 6.0), "ftml": (13.0, 20.0), "ftml-vs": (13.0, 20.0)}, 6.0
THRESHOLD = 0.7  # instead of the preset's 0.85, so that tasks end sooner and all of it takes two minutes, not four
MOST_SEEDS = 20


def demo(out: Path = Path("demo-report"), seeds: int = 2, quiet: bool = False) -> None:
    """See what variable-shot online learning buys: three methods on the same handwritten digits, in about two minutes.

    A task is one look of the digits: a colour, a size, a rotation. Tasks come one after another and labels four at a
    time; the next task begins when this one is mastered, or given up. TOE trains one model on everything, FTML
    meta-learns how to adapt, FTML-VS also learns how the step size depends on the number of labels. It ends with a
    table, and a report with figures. Stopped by Ctrl-C, the same command goes on.

    Args:
        out: folder for the report and the runs.
        seeds: streams to run every method on, 1 to 20.
        quiet: print the result and no progress.
    """
    if not 1 <= seeds <= MOST_SEEDS:
        raise InputError(f"--seeds must be 1 to {MOST_SEEDS}, got {seeds}")
    _check_out(out)
    usual = preset("rainbow-digits")
    settings = usual.model_copy(update={"protocol": replace(usual.protocol, threshold=THRESHOLD)})
    try:
        show(settings, out, seeds, quiet)
    except KeyboardInterrupt:
        again = shlex.join(["anyshot", "demo", "--out", str(out), "--seeds", str(seeds)])
        raise KeyboardInterrupt(f"interrupted; what is done is kept, go on with: {again}") from None


def show(settings: Settings, out: Path, seeds: int, quiet: bool) -> None:
    """Run every method on every seed's stream, then print the table and write the report."""
    started = time.monotonic()
    runs = [(learner, seed) for seed in range(seeds) for learner in LEARNERS]
    if not quiet:
        streams = "the same stream" if seeds == 1 else f"the same {seeds} streams"
        say(f"{', '.join(LEARNERS)} on {streams} of {settings.data.name}; starting JAX")
    tasks = tasks_in(settings)
    use_device("auto", settings.numbers.tasks)
    from anyshot.report.collected import collect
    from anyshot.report.comparison import compare
    from anyshot.report.online_comparison import Comparison
    from anyshot.report.page import write_report

    folders = [out / "runs" / f"{learner}-{seed}" for learner, seed in runs]
    _run_all(settings, tasks, dict(zip(folders, runs, strict=True)), quiet, started)
    if not quiet:
        say("drawing the report")
    comparisons = [one for one in compare(collect(folders)) if isinstance(one, Comparison)]
    page = out / "report.html"
    write_report(comparisons, page)
    if not quiet:
        say(f"done in {time.monotonic() - started:.0f} s")
    print(result(comparisons[0]))
    print(f"\nreport with figures: {page}", flush=True)


def _run_all(settings: Settings, tasks: int, runs: dict[Path, tuple[str, int]], quiet: bool, started: float) -> None:
    from anyshot.runs.experiment import Experiment
    from anyshot.runs.online import run_online

    expected = _expected(runs)
    for number, (folder, (learner, seed)) in enumerate(runs.items()):
        name = f"{learner}, seed {seed}"
        with Progress(name, tasks, quiet=quiet, pause=3.0, left=_left(expected, number, started)) as watch:
            ledger = run_online(Experiment(settings, learner, seed), folder, watch=watch, warn=_warn)
        if not quiet:
            say(f"{name}: {ledger.mastered} of {tasks} tasks mastered with {ledger.labels:,} labels")


def _expected(runs: dict[Path, tuple[str, int]]) -> list[tuple[float, float]]:
    """Seconds to compile, once for each method, and to run; a run that is finished takes none."""
    found, compiled = [], set()
    for folder, (learner, _) in runs.items():
        compiling, running = (0.0, 0.0) if (folder / SUMMARY).is_file() else SECONDS[learner]
        found.append((0.0 if learner in compiled else compiling, running))
        compiled |= {learner} if running else set()
    return found


def _left(expected: list[tuple[float, float]], number: int, started: float) -> Callable[[float], float]:
    """Seconds left in all when a fraction of run `number` is done, if this machine stays as fast as it was so far."""
    before = sum(map(sum, expected[:number])) + expected[number][0]
    own, after = expected[number][1], sum(map(sum, expected[number + 1 :])) + DRAWING

    def left(fraction: float) -> float:
        # The first seconds say little about the machine, so as many are added to both.
        slower = (time.monotonic() - started + 20) / (before + fraction * own + 20)
        return slower * ((1 - fraction) * own + after)

    return left


def result(comparison: Comparison) -> str:
    """The table, and what it says."""
    from anyshot.report.formats import aligned, spread
    from anyshot.report.online_comparison import last_quarter
    from anyshot.report.verdict import verdict

    last = last_quarter(comparison.group.tasks)
    head = ["learner", "seeds", "labels used", "tasks mastered", "cumulative loss"]
    table = [[*head, f"zero-shot {comparison.measure}, last {last} tasks"]]
    for row in comparison.rows:
        cells = [spread(row.labels, 0), spread(row.mastered, 1), spread(row.loss, 1), spread(row.zero_shot, 3)]
        table.append([row.learner, str(len(row.seeds)), *cells])
    told = (
        f"{comparison.group.tasks} tasks, mean ± standard deviation over seeds; fewer labels and less loss are better"
    )
    return "\n".join(["", told, "", *aligned(table), "", verdict(comparison)])


def _check_out(out: Path) -> None:
    try:
        with unfinished_folder(out):
            pass
    except OSError as error:
        raise InputError(
            f"--out must be a folder that can be written to, {out} is not: {error.strerror or error}"
        ) from error


def _warn(sentence: str) -> None:
    print(f"anyshot: warning: {sentence}", file=sys.stderr, flush=True)


def main(words: list[str]) -> None:
    """Run the command."""
    tyro.cli(demo, args=words, prog="anyshot demo")
