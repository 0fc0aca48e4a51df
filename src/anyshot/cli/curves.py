"""The picture that `anyshot watch` shows: all runs, those of the same settings together."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from anyshot.cli.offline_curves import offline_plots, offline_table
from anyshot.cli.online_curves import online_plots, online_table
from anyshot.cli.run_rows import Looks
from anyshot.report.grouping import alike, order
from anyshot.report.naming import title
from anyshot.report.offline_runs import OfflineRun
from anyshot.report.online_runs import Run

COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red", "bright_cyan", "bright_magenta", "bright_yellow")
LEAST, MOST = 6, 14  # lines of a plot


def pictured(
    runs: Sequence[Run | OfflineRun], waiting: Sequence[str], width: int, height: int | None, colour: bool
) -> RenderableType:
    """All runs, those of the same settings together.

    Args:
        runs: to show.
        waiting: sentences about folders that have no run yet.
        width: of the terminal.
        height: of the terminal, to fit into; None: as high as it likes to be.
        colour: whether lines can be told apart by it; else by letters.
    """
    online = alike(run for run in runs if isinstance(run, Run))
    offline = alike(run for run in runs if isinstance(run, OfflineRun))
    looks = _looks(runs)
    taken = len(waiting) + len(runs) + 2 * (len(online) + len(offline))
    plots = max(1, 2 * len(online) + len(offline))
    lines = MOST if height is None else min(MOST, max(LEAST, (height - 1 - taken) // plots))
    shape = min(width, 120), lines, colour
    parts: list[RenderableType] = []
    for group in online:
        parts += [_title(group[0]), online_table(group, looks, colour), *online_plots(group, looks, *shape)]
    for trained in offline:
        parts += [_title(trained[0]), offline_table(trained, looks, colour), *offline_plots(trained, looks, *shape)]
    parts += [Text(f"{sentence}; waiting for one", style="yellow") for sentence in waiting]
    return Group(*parts)


def _title(run: Run | OfflineRun) -> Text:
    return Text(title(run.settings), style="bold", no_wrap=True, overflow="ellipsis")


def _looks(runs: Sequence[Run | OfflineRun]) -> Looks:
    """A colour and a letter for each method."""
    learners = dict.fromkeys(run.learner for run in sorted(runs, key=order))
    return {name: (COLOURS[n % len(COLOURS)], chr(ord("a") + n % 26)) for n, name in enumerate(learners)}
