"""Figures of runs draw the numbers of their tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from anyshot.runs.running import load_run
from anyshot.runs.table import task_table


def drawn(figure: Figure) -> list[tuple[list[float], list[float], str]]:
    """The lines of a figure: x, y, and what y is."""
    axes = figure.axes
    return [(list(line.get_xdata()), list(line.get_ydata()), ax.get_ylabel()) for ax in axes for line in ax.lines]


def test_an_online_run_shows_loss_and_labels(online_folder: Path) -> None:
    run = load_run(online_folder)
    tasks = task_table(run.table)
    figure = run.plot()
    assert isinstance(figure, Figure)
    assert drawn(figure) == [
        ([1, 2, 3, 4, 5, 6], list(np.cumsum(tasks["loss"])), "cumulative loss"),
        ([1, 2, 3, 4, 5, 6], list(tasks["labels"]), "labels"),
    ]
    assert "ftml-vs" in figure.get_suptitle()


def test_an_offline_run_shows_validation_and_test(offline_folder: Path) -> None:
    run = load_run(offline_folder)
    summary = run.summary
    assert summary is not None
    assert summary.kind == "offline"
    (steps, scores, _), test = drawn(run.plot())
    assert steps == [20, 40, 60]
    assert max(scores) == scores[steps.index(summary.best_step)]
    assert test == ([0, 2, 5], [score.loss for score in summary.tests], "test loss")
