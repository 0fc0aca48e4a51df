"""`anyshot demo`: six methods on embedded data in about three minutes, with a table and a report."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyshot.atomic import unfinished_folder
from anyshot.cli.device import use_device
from anyshot.cli.run import warn
from anyshot.errors import InputError

if TYPE_CHECKING:
    from anyshot.runs import Experiment

LEARNERS = ("toe", "ftml", "ftml-vs", "scratch", "scratch-kernel", "anyshot")
# Lower than the preset's 0.85, so that tasks end sooner and the demo takes three minutes instead of six.
SETTINGS = {"protocol.threshold": 0.7}
MOST_SEEDS = 20
# To estimate the time that is left: seconds to compile and to draw, and the usual share of the steps at most.
COMPILING, DRAWING, SHARE = 11.0, 6.0, 0.45


def demo(out: Path = Path("demo-report"), seeds: int = 2, quiet: bool = False) -> None:
    """Compare six methods on the same handwritten digits, in about three minutes.

    A task is one look of the digits: a colour, a size, a rotation. Tasks come one after another and labels four at a
    time. The next task begins when the current one is mastered, or given up. TOE trains one model on everything, FTML
    meta-learns how to adapt, and FTML-VS also learns how the step size depends on the number of labels. Two baselines
    learn nothing from other tasks: scratch is logistic regression on the labels of the task alone, scratch-kernel the
    same with a Gaussian kernel that compares the edges and colours of images. Anyshot pools FTML-VS, another
    meta-learner and scratch-kernel. The demo ends with a table and a report with figures. If it is stopped by Ctrl-C,
    the same command goes on.

    Args:
        out: folder for the report and the runs.
        seeds: number of streams to run each method on, 1 to 20.
        quiet: print the result and no progress.
    """
    if not 1 <= seeds <= MOST_SEEDS:
        raise InputError(f"--seeds must be 1 to {MOST_SEEDS}, got {seeds}")
    _check_out(out)
    try:
        run_demo("rainbow-digits", SETTINGS, out, seeds, quiet)
    except KeyboardInterrupt:
        again = shlex.join(["anyshot", "demo", "--out", str(out), "--seeds", str(seeds)])
        raise KeyboardInterrupt(f"interrupted; what is done is kept; go on with: {again}") from None


def run_demo(preset: str, settings: Mapping[str, Any], out: Path, seeds: int, quiet: bool) -> None:
    """Run every learner on the stream of every seed, print the table and write the report."""
    from anyshot.runs.progress import print_line

    def say(line: str) -> None:
        if not quiet:
            print_line(line)

    started = time.monotonic()
    say(f"{', '.join(LEARNERS)} on {preset}, {seeds} stream{'s' * (seeds > 1)} each: starting JAX")
    use_device("auto", "together")
    from anyshot.report import compare, write_page
    from anyshot.report.sections import describe_findings
    from anyshot.runs import make_experiment

    experiments = [make_experiment(preset, learner, settings=settings) for learner in LEARNERS]
    runs = {
        out / "runs" / f"{one.learner.name}-{seed}": replace(one, seed=seed)
        for seed in range(seeds)
        for one in experiments
    }
    _run_all(runs, quiet, started, say)
    say("drawing the report")
    comparison, page = compare(list(runs))[0], out / "report.html"
    write_page([comparison], page)
    say(f"done in {time.monotonic() - started:.0f} s")
    print("", comparison, *describe_findings(comparison), sep="\n")
    print(f"\nreport with figures: {page}", flush=True)


def _run_all(runs: Mapping[Path, Experiment], quiet: bool, started: float, say: Callable[[str], None]) -> None:
    from anyshot.runs import run
    from anyshot.runs.progress import Progress

    expected = _expected_seconds(runs)
    for number, (folder, experiment) in enumerate(runs.items()):
        left = _seconds_left(expected, number, started)
        with Progress(experiment, quiet=quiet, pause=3.0, left=left) as progress:
            finished = run(experiment, folder, progress=False, observe=progress, warn=warn)
        say(f"{experiment.learner.name}, seed {experiment.seed}: {finished.outcome}")


def _expected_seconds(runs: Mapping[Path, Experiment]) -> list[tuple[float, float]]:
    """Seconds to compile, once for each learner, and to run; a finished run takes none."""
    from anyshot.runs.estimate import CPU, estimate
    from anyshot.runs.reading import SUMMARY_FILE

    expected: list[tuple[float, float]] = []
    seconds: dict[str, float] = {}
    for folder, experiment in runs.items():
        name, compiled = experiment.learner.name, experiment.learner.name in seconds
        if (folder / SUMMARY_FILE).is_file():
            expected.append((0.0, 0.0))
            continue
        if not compiled:
            needs = estimate(experiment)
            seconds[name] = SHARE * needs.steps * needs.seconds_per_step[CPU]
        expected.append((0.0 if compiled else COMPILING, seconds[name]))
    return expected


def _seconds_left(expected: list[tuple[float, float]], number: int, started: float) -> Callable[[float], float]:
    """Seconds left when a fraction of run `number` is done, if this machine stays as fast as it was so far."""
    before = sum(map(sum, expected[:number])) + expected[number][0]
    own, after = expected[number][1], sum(map(sum, expected[number + 1 :])) + DRAWING

    def left(fraction: float) -> float:
        # The first seconds say little about the machine, so as many are added to both.
        slower = (time.monotonic() - started + 20) / (before + fraction * own + 20)
        return slower * ((1 - fraction) * own + after)

    return left


def _check_out(out: Path) -> None:
    try:
        with unfinished_folder(out):
            pass
    except OSError as error:
        raise InputError(
            f"--out must be a folder that can be written to, {out} is not: {error.strerror or error}"
        ) from error
