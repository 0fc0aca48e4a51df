"""A figure of one run."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anyshot.runs.records import ExperimentRecord
from anyshot.runs.table import task_table


def plot_run(table: pd.DataFrame, experiment: ExperimentRecord) -> Figure:
    """Cumulative loss and labels per task of an online run; test scores against shots of an offline run."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    figure.suptitle(f"{experiment.learner.name} on {experiment.tasks.name}, seed {experiment.seed}")
    left, right = figure.subplots(1, 2)
    if experiment.kind == "online":
        tasks = task_table(table)
        numbers = range(1, len(tasks) + 1)
        _draw(left, numbers, tasks["loss"].cumsum(), "tasks", "cumulative loss")
        _draw(right, numbers, tasks["labels"], "task", "labels")
        return figure
    trials, tests = (table[table["event"] == event] for event in ("trial", "test"))
    scores = trials.drop_duplicates("step").dropna(subset=["score"])
    _draw(left, scores["step"], scores["score"], "meta-training steps", "validation score")
    measure = "accuracy" if tests["accuracy"].notna().any() else "loss"
    _draw(right, tests["shots"], tests[measure], "shots", f"test {measure}")
    return figure


def _draw(axes: Axes, x: object, y: object, x_label: str, y_label: str) -> None:
    axes.plot(x, y, marker="o", markersize=3)  # type: ignore[arg-type]
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(alpha=0.3)
