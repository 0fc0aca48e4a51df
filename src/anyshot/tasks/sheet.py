"""A contact sheet: some tasks of a set, some examples of each, and how many labels of each kind a task holds."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Int, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anyshot.errors import InputError
from anyshot.tasks.pairs import PairTasks
from anyshot.tasks.randomness import permutation
from anyshot.tasks.taskset import TaskSet
from anyshot.tasks.ways import ClassTasks
from anyshot.unfinished import unfinished_folder

MOST = 2000  # pictures on a sheet: more are too small to see, or too many to draw


def check_sheet(rows: int, columns: int) -> None:
    """Raise `InputError` for a sheet that cannot be drawn."""
    for name, value in (("tasks", rows), ("examples", columns)):
        if not 1 <= value <= 100:
            raise InputError(f"{name} must be 1..100, got {value}")
    if rows * columns > MOST:
        raise InputError(f"tasks x examples must be at most {MOST:,}, got {rows} x {columns}")


def contact_sheet(tasks: TaskSet, *, rows: int = 8, columns: int = 10, seed: int = 0) -> Figure:
    """One row for each of `rows` random tasks, with `columns` examples each that may be given out."""
    check_sheet(rows, columns)
    rows = min(rows, tasks.tasks)
    chosen = np.sort(permutation(tasks.tasks, seed, "contact sheet")[:rows])
    if tasks.x.ndim == 2:
        return _curves(tasks, chosen)
    pairs = isinstance(tasks, PairTasks)
    columns = columns if pairs else min(columns, tasks.given.shape[1])
    figure = Figure(figsize=(1 + (1.4 if pairs else 0.9) * columns, 0.6 + rows), layout="constrained")
    for panel, task in zip(figure.subplots(rows, squeeze=False).ravel(), chosen, strict=True):
        drawn = tasks.draw(jax.random.fold_in(jax.random.key(seed), int(task)), int(task), columns)
        x, y = map(np.asarray, tasks.look_up(drawn))
        _strip(panel, x, [_label(tasks, label) for label in y])
        name = textwrap.fill(tasks.task_names[task].replace("_", " "), 14)
        panel.set_ylabel(name, fontsize=7, rotation=0, ha="right", va="center")
    figure.suptitle(_title(tasks, rows), fontsize=10)
    return figure


def _title(tasks: TaskSet, rows: int) -> str:
    given, held = tasks.given.shape[1], tasks.held.shape[1]
    if isinstance(tasks, ClassTasks):
        return f"{tasks.name}: {rows} of {tasks.tasks:,} classes of {given} examples"
    of_what = "images" if isinstance(tasks, PairTasks) else "examples"
    each = f"{given} {of_what} to give out and {held} held for testing"
    return f"{tasks.name}: {rows} of {tasks.tasks:,} tasks, each with {each}"


def _strip(panel: Axes, x: Any, labels: list[str]) -> None:
    """Pictures beside each other as one, a panel for each would take minutes; each with its label above."""
    if x.ndim == 5:  # pairs: reference and query beside each other, a thin white line between them
        x = _beside(x, x.shape[3] // 14)
    x = x if x.ndim == 4 else x[..., None]
    width, gap = x.shape[2], max(1, x.shape[2] // 8)
    strip = _beside(x[None], gap)[0]
    panel.imshow(strip if strip.shape[-1] == 3 else strip[..., 0], cmap="gray", vmin=0, vmax=255)
    panel.set_yticks([])
    panel.set_xticks((width - 1) / 2 + (width + gap) * np.arange(len(labels)), labels, fontsize=7)
    panel.tick_params(length=0, pad=1, bottom=False, labelbottom=False, labeltop=True)
    panel.spines[:].set_visible(False)


def _beside(x: UInt8[np.ndarray, "n m h w c"], gap: int) -> UInt8[np.ndarray, "n h _ c"]:
    """Of each n the m pictures in a row, with at least one white pixel between them."""
    spaced = np.pad(x, ((0, 0), (0, 0), (0, 0), (0, max(1, gap)), (0, 0)), constant_values=255)
    n, m, height, width, channels = spaced.shape
    return spaced.swapaxes(1, 2).reshape(n, height, m * width, channels)[:, :, : -max(1, gap)]


def _label(tasks: TaskSet, y: Any) -> str:
    if isinstance(tasks, PairTasks):
        return "same" if y else "other"
    if isinstance(tasks, ClassTasks):
        return ""
    return f"{360 * float(y[0]):.0f}°" if np.issubdtype(y.dtype, np.floating) else str(int(y))


def _curves(tasks: TaskSet, chosen: Int[np.ndarray, " rows"]) -> Figure:
    columns = min(4, len(chosen))
    lines = -(-len(chosen) // columns)
    figure = Figure(figsize=(2.6 * columns, 0.6 + 1.9 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True).ravel()
    for panel, task in zip(panels, chosen, strict=False):
        for part, marker in (("held", "."), ("given", "o")):
            x, y = tasks.look_up(getattr(tasks, part)[task])
            panel.plot(np.asarray(x)[:, 0], np.asarray(y)[:, 0], marker, markersize=3, label=part)
        panel.set_title(tasks.task_names[task], fontsize=8)
    panels[0].legend(fontsize=7, loc="upper right")
    for panel in panels[len(chosen) :]:
        panel.remove()
    figure.suptitle(_title(tasks, len(chosen)), fontsize=10)
    return figure


def label_counts(tasks: TaskSet) -> Int[np.ndarray, "tasks labels"] | None:
    """How often each label occurs among a task's examples, given and held; None where labels are not the task's own."""
    if isinstance(tasks, (PairTasks, ClassTasks)) or not np.issubdtype(tasks.y.dtype, np.integer):
        return None
    rows, labels = np.concatenate([tasks.given, tasks.held], axis=1), int(np.max(tasks.y)) + 1
    return np.stack([np.bincount(np.asarray(tasks.y)[task], minlength=labels) for task in rows])


def check_out(out: Path) -> None:
    """Raise `InputError` for a name that no picture can have."""
    if out.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"out must end in .png, .svg or .pdf, got {str(out)!r}")


def save(figure: Figure, out: Path) -> None:
    """Write the sheet under a temporary name beside `out`, then move it into place."""
    check_out(out)
    try:
        with unfinished_folder(out.parent) as unfinished:
            figure.savefig(unfinished / out.name, dpi=110)
            (unfinished / out.name).replace(out)
    except OSError as error:
        raise InputError(f"out must be a file that can be written, {out} is not: {error.strerror or error}") from error
