"""A figure of one task."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from anyshot.lifelong.sequences import confidence_sequence

NAMES = {
    "learner": "learned from all tasks",
    "scratch": "linear, from scratch",
    "kernel": "kernel, from scratch",
    "features": "linear on features",
}


def plot_task(table: pd.DataFrame, title: str, level: float = 0.9) -> Figure:
    """How good predictions of labels were before the labels were seen, and the weight of each expert.

    Args:
        table: of the labels, as `Task.table`.
        title: of the figure.
        level: of the band around the accuracy.
    """
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    figure.suptitle(title)
    left, right = figure.subplots(1, 2)
    numbers = np.arange(1, len(table) + 1)
    measure = "right" if "right" in table else "error"
    if len(table):
        left.plot(numbers, table[measure].expanding().mean(), color="black", label="all, weighed")
        for expert in (name for name in NAMES if f"weight.{name}" in table):
            left.plot(numbers, table[f"{measure}.{expert}"].expanding().mean(), ls="--", label=NAMES[expert])
            right.plot(numbers, table[f"weight.{expert}"], ls="--")
    if measure == "right" and len(table):
        chosen = np.flatnonzero(table["random"])
        total = table["right"].to_numpy(float)[chosen].cumsum()
        ends = np.array([confidence_sequence(total[n], n + 1, level) for n in range(len(chosen))]).reshape(-1, 2)
        left.fill_between(chosen + 1, *ends.T, color="black", alpha=0.12, label=f"{level:.0%} from own labels")
    left.set(xlabel="labels", ylabel="accuracy so far" if measure == "right" else "squared error so far")
    right.set(xlabel="labels", ylabel="weight", ylim=(0, 1))
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if len(table):
        figure.legend(loc="outside lower center", ncols=3, fontsize="small")
    return figure
