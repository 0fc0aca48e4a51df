"""What `anyshot watch` shows of offline runs: where each is, and the validation score against steps."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from anyshot.cli.plot import Curve, plotted
from anyshot.cli.run_rows import Looks, empty_table, name, state
from anyshot.report.offline_runs import OfflineRun


def offline_table(runs: Sequence[OfflineRun], looks: Looks, colours: bool) -> Table:
    """Where each run is, and what came out of those that are finished."""
    shots = "/".join(map(str, runs[0].settings.plan.test_shots))
    table = empty_table(("seed", "step", "validation", "best at", f"test with {shots} shots", "state"))
    for run in runs:
        now = f"{run.validation[-1][1]:.3g}" if run.validation else ""
        best = f"{run.best['step']:,}" if run.best and run.validation else ""
        test = " ".join(f"{line[run.measure]:.3g}" for line in run.tests)
        table.add_row(name(run, looks, colours), str(run.seed), f"{run.steps:,}", now, best, test, state(run))
    return table


def offline_plots(runs: Sequence[OfflineRun], looks: Looks, width: int, lines: int, colour: bool) -> list[Text]:
    """The score of every trial, a line for each run."""
    if not any(run.validation for run in runs):
        told = "no trial yet" if runs[0].settings.plan.validation_tasks else "no validation tasks, so no curve"
        return [Text(told, style="dim")]
    curves = [Curve(run.validation, *looks[run.learner]) for run in runs]
    title = f"validation {runs[0].measure}, mean over numbers of shots"
    return plotted(title, "steps", curves, width, lines, colour)
