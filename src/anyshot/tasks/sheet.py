"""A contact sheet: some tasks of a set with some examples each, and the number of examples per label of each task."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Int, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anyshot.atomic import check_out, write_beside
from anyshot.errors import InputError
from anyshot.limits import check_whole
from anyshot.tasks.pairs import PairTasks
from anyshot.tasks.randomness import permutation
from anyshot.tasks.rows import PARTS
from anyshot.tasks.taskset import TaskSet
from anyshot.tasks.ways import ClassTasks

MAX_PICTURES = 2000  # on a sheet; drawing more takes too long


def check_sheet(rows: int, columns: int) -> None:
    """Raise `InputError` for a sheet that is empty or too large."""
    check_whole("tasks", rows, 1, 100)
    check_whole("examples", columns, 1, 100)
    if rows * columns > MAX_PICTURES:
        raise InputError(f"tasks x examples must be at most {MAX_PICTURES:,}, got {rows} x {columns}")


def contact_sheet(tasks: TaskSet, *, rows: int = 8, columns: int = 10, seed: int = 0) -> Figure:
    """Draw random tasks, one in each row, with random examples of their train rows.

    Args:
        tasks: the task set.
        rows: how many tasks to show.
        columns: how many examples of each.
        seed: chooses the tasks and the examples.
    """
    check_sheet(rows, columns)
    rows = min(rows, tasks.num_tasks)
    chosen = np.sort(permutation(tasks.num_tasks, seed, "contact sheet")[:rows])
    if tasks.x.ndim == 2:
        return _draw_curves(tasks, chosen)
    pairs = isinstance(tasks, PairTasks)
    columns = columns if pairs else min(columns, int(tasks.counts("train")[chosen].min()))
    figure = Figure(figsize=(1 + (1.4 if pairs else 0.9) * columns, 0.6 + rows), layout="constrained")
    for panel, task in zip(figure.subplots(rows, squeeze=False).ravel(), chosen, strict=True):
        drawn = tasks.draw(jax.random.fold_in(jax.random.key(seed), int(task)), int(task), columns)
        x, y = map(np.asarray, tasks.look_up(drawn))
        _draw_strip(panel, x, [_label(tasks, label) for label in y])
        name = textwrap.fill(tasks.task_names[task].replace("_", " "), 14)
        panel.set_ylabel(name, fontsize=7, rotation=0, ha="right", va="center")
    figure.suptitle(_title(tasks, rows), fontsize=10)
    return figure


def _title(tasks: TaskSet, rows: int) -> str:
    train_rows, test_rows = (_range(tasks.counts(part)) for part in PARTS)
    if isinstance(tasks, ClassTasks):
        return f"{tasks.name}: {rows} of {tasks.num_tasks:,} classes of {train_rows} examples"
    of_what = "images" if isinstance(tasks, PairTasks) else "examples"
    each = f"{train_rows} {of_what} to train on and {test_rows} to test on"
    return f"{tasks.name}: {rows} of {tasks.num_tasks:,} tasks, each with {each}"


def _range(counts: Int[np.ndarray, " tasks"]) -> str:
    return f"{counts[0]}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"


def _draw_strip(panel: Axes, x: Any, labels: list[str]) -> None:
    """Draw pictures side by side as one image (a panel each would take minutes), each with its label above."""
    if x.ndim == 5:  # pairs: reference and query side by side, with a thin white line between them
        x = _join_pictures(x, x.shape[3] // 14)
    x = x if x.ndim == 4 else x[..., None]
    width, gap = x.shape[2], max(1, x.shape[2] // 8)
    strip = _join_pictures(x[None], gap)[0]
    panel.imshow(strip if strip.shape[-1] == 3 else strip[..., 0], cmap="gray", vmin=0, vmax=255)
    panel.set_yticks([])
    panel.set_xticks((width - 1) / 2 + (width + gap) * np.arange(len(labels)), labels, fontsize=7)
    panel.tick_params(length=0, pad=1, bottom=False, labelbottom=False, labeltop=True)
    panel.spines[:].set_visible(False)


def _join_pictures(x: UInt8[np.ndarray, "n m h w c"], gap: int) -> UInt8[np.ndarray, "n h _ c"]:
    """Join the m pictures of each n side by side, with at least one white pixel between them."""
    spaced = np.pad(x, ((0, 0), (0, 0), (0, 0), (0, max(1, gap)), (0, 0)), constant_values=255)
    n, m, height, width, channels = spaced.shape
    return spaced.swapaxes(1, 2).reshape(n, height, m * width, channels)[:, :, : -max(1, gap)]


def _label(tasks: TaskSet, y: Any) -> str:
    if isinstance(tasks, PairTasks):
        return "same" if y else "other"
    if isinstance(tasks, ClassTasks):
        return ""
    return f"{360 * float(y[0]):.0f}°" if np.issubdtype(y.dtype, np.floating) else str(int(y))


def _draw_curves(tasks: TaskSet, chosen: Int[np.ndarray, " rows"]) -> Figure:
    columns = min(4, len(chosen))
    lines = -(-len(chosen) // columns)
    figure = Figure(figsize=(2.6 * columns, 0.6 + 1.9 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True).ravel()
    for panel, task in zip(panels, chosen, strict=False):
        for part, marker in zip(PARTS[::-1], ".o", strict=True):
            x, y = tasks.look_up(tasks.rows_of(int(task), part))
            panel.plot(np.asarray(x)[:, 0], np.asarray(y)[:, 0], marker, markersize=3, label=part)
        panel.set_title(tasks.task_names[task], fontsize=8)
    panels[0].legend(fontsize=7, loc="upper right")
    for panel in panels[len(chosen) :]:
        panel.remove()
    figure.suptitle(_title(tasks, len(chosen)), fontsize=10)
    return figure


def label_counts(tasks: TaskSet) -> Int[np.ndarray, "tasks labels"] | None:
    """How often each label occurs in each task; None for a regression, for pairs and for N-way classes."""
    if isinstance(tasks, (PairTasks, ClassTasks)) or not np.issubdtype(tasks.y.dtype, np.integer):
        return None
    labels = int(np.max(tasks.y)) + 1
    rows = [np.concatenate([tasks.rows_of(task, part) for part in PARTS]) for task in range(tasks.num_tasks)]
    return np.stack([np.bincount(np.asarray(tasks.y)[task], minlength=labels) for task in rows])


def check_picture(out: Path) -> None:
    """Raise `InputError` for a wrong ending, or if `out` exists and is not a regular file."""
    if out.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"out must end in .png, .svg or .pdf, got {str(out)!r}")
    check_out(out)


def save(figure: Figure, out: Path) -> None:
    """Write the sheet under a temporary name in the same folder, then move it to `out`."""
    check_picture(out)
    with write_beside(out) as unfinished:
        figure.savefig(unfinished / out.name, dpi=110)
        (unfinished / out.name).replace(out)
