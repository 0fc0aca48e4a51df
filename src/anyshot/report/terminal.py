"""The picture that `anyshot watch` shows: where runs are, and their curves, those of the same world together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from anyshot.report.groups import split_worlds
from anyshot.report.methods import make_title
from anyshot.report.terminal_plot import Curve, plot
from anyshot.report.words import printable
from anyshot.runs.reading import EVENTS_FILE
from anyshot.runs.table import task_table

COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red", "bright_cyan", "bright_magenta", "bright_yellow")
LEAST, MOST = 6, 14  # lines of a plot
PLOTS = {"online": 2, "offline": 1}
HEADS = {
    "online": ("seed", "task", "shots", "score", "labels", "loss so far", "state"),
    "offline": ("seed", "step", "validation", "best at", "test", "state"),
}
Looks = dict[str, tuple[str, str]]  # a colour, as rich knows it, and a letter for each method
Points = list[tuple[float, float]]


def draw_runs(
    runs: pd.DataFrame | None, waiting: Sequence[str], width: int, height: int | None, colour: bool
) -> RenderableType:
    """All runs.

    Args:
        runs: the table of the runs to show; None if there are none yet.
        waiting: sentences about folders that have no run yet.
        width: of the terminal.
        height: of the terminal, to fit into; None: as high as it likes to be.
        colour: whether lines can be told apart by it; else by letters.
    """
    worlds = split_worlds(runs) if runs is not None else []
    methods = dict.fromkeys(method for world in worlds for method in world["method"])
    looks = {name: (COLOURS[n % len(COLOURS)], chr(ord("a") + n % 26)) for n, name in enumerate(methods)}
    taken = len(waiting) + sum(world["run"].nunique() + 2 for world in worlds)
    plots = max(1, sum(PLOTS[world["kind"].iloc[0]] for world in worlds))
    lines = MOST if height is None else min(MOST, max(LEAST, (height - 1 - taken) // plots))
    parts: list[RenderableType] = []
    for world in worlds:
        title = Text(make_title(world.drop_duplicates("run")), style="bold", no_wrap=True, overflow="ellipsis")
        parts += [title, _draw_table(world, looks, colour), *_draw_plots(world, looks, min(width, 120), lines, colour)]
    parts += [Text(f"{printable(sentence)}; waiting for one", style="yellow") for sentence in waiting]
    return Group(*parts)


def _draw_table(world: pd.DataFrame, looks: Looks, colour: bool) -> Table:
    """Where each run is, and what came out of those that are finished."""
    kind = world["kind"].iloc[0]
    table = Table(box=None, pad_edge=False, header_style="dim", collapse_padding=True)
    table.add_column("method", no_wrap=True)
    for head in HEADS[kind]:
        table.add_column(head, justify="right", no_wrap=True)
    for folder, run in world.groupby("run", sort=False):
        method, seed = run["method"].iloc[0], str(run["seed"].iloc[0])
        style, letter = looks[method]
        name = Text(method if colour else f"{letter} {method}", style=style)
        cells = _online_cells(run) if kind == "online" else _offline_cells(run)
        state = "finished" if run["finished"].iloc[0] else _describe_age(Path(str(folder)))
        table.add_row(name, seed, *map(Text, cells), state)
    return table


def _online_cells(run: pd.DataFrame) -> list[str]:
    """Task, shots, score, labels and loss so far."""
    evaluations = run[run["event"] == "evaluation"]
    if evaluations.empty:
        return ["none yet", "", "", "0", "0"]
    last = evaluations.iloc[-1]
    score = last["accuracy"] if pd.notna(last["accuracy"]) else last["loss"]
    counts = [f"{last['position'] + 1:.0f}", f"{last['shots']:.0f}"]
    return [*counts, f"{score:.3g}", f"{last['total_labels']:,.0f}", f"{last['total_loss']:,.1f}"]


def _offline_cells(run: pd.DataFrame) -> list[str]:
    """Step, validation score, step of the best, and the test scores of a finished run."""
    trials = run[run["event"] == "trial"].drop_duplicates("step")
    tests = run[(run["event"] == "test") & run["finished"].astype(bool)]
    measure = _measure(run)
    validation = _validation(run)
    step = f"{trials['step'].max():,.0f}" if len(trials) else "0"
    best = trials[trials["better"].eq(True)]["step"].max()
    scores = [f"{score:.3g}" for score in tests[measure].dropna()]
    now = f"{validation[-1][1]:.3g}" if validation else ""
    return [step, now, f"{best:,.0f}" if validation and best == best else "", " ".join(scores)]


def _draw_plots(world: pd.DataFrame, looks: Looks, width: int, lines: int, colour: bool) -> list[Text]:
    curves = _online_curves(world) if world["kind"].iloc[0] == "online" else _offline_curves(world)
    if not any(points for by_run in curves.values() for points in by_run.values()):
        return [Text("no curves yet", style="dim")]
    method = world.drop_duplicates("run").set_index("run")["method"]
    drawn = []
    for (title, x_title), by_run in curves.items():
        shown = [Curve(points, *looks[method[folder]]) for folder, points in by_run.items()]
        drawn += plot(title, x_title, shown, width, lines, colour)
    return drawn


def _online_curves(world: pd.DataFrame) -> dict[tuple[str, str], dict[str, Points]]:
    """Cumulative loss and labels of the tasks that have ended."""
    tasks = task_table(world)
    tasks = tasks[tasks["ended"]]
    window = max(1, int(tasks.groupby("run").size().max()) // 10) if len(tasks) else 1  # as in the report
    smooth = f", running mean of {window} tasks" if window > 1 else ""
    losses, labels = {}, {}
    for folder, run in tasks.groupby("run", sort=False):
        losses[str(folder)] = _number(run["loss"].cumsum())
        labels[str(folder)] = _number(run["labels"].rolling(window).mean())
    return {("cumulative loss", "tasks"): losses, (f"labels per task{smooth}", "task"): labels}


def _offline_curves(world: pd.DataFrame) -> dict[tuple[str, str], dict[str, Points]]:
    """The score of every trial."""
    found = {str(folder): _validation(run) for folder, run in world.groupby("run", sort=False)}
    return {(f"validation {_measure(world)}, mean over numbers of shots", "steps"): found}


def _number(values: pd.Series) -> Points:
    """Values against 1, 2, ...; those that are missing are left out."""
    return [(float(n), float(value)) for n, value in enumerate(values, start=1) if value == value]


def _measure(rows: pd.DataFrame) -> str:
    return "accuracy" if rows["accuracy"].notna().any() else "loss"


def _validation(run: pd.DataFrame) -> Points:
    trials = run[run["event"] == "trial"].drop_duplicates("step").dropna(subset=["score"])
    sign = 1 if _measure(run) == "accuracy" else -1  # a score is better when higher
    return [(float(step), sign * float(score)) for step, score in zip(trials["step"], trials["score"], strict=True)]


def _describe_age(folder: Path) -> str:
    """When a run has last written something; a run that was stopped does not say so."""
    log = folder / EVENTS_FILE
    if not log.exists():
        return "nothing written yet"
    seconds = max(0.0, time.time() - log.stat().st_mtime)
    if seconds < 120:
        return f"updated {seconds:.0f} s ago"
    return f"updated {seconds / 60:.0f} min ago" if seconds < 7200 else f"updated {seconds / 3600:.0f} h ago"
