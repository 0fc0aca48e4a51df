"""How figures look: one colour, marker and line for each method, in every figure, and the same bytes every time."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

# Okabe and Ito's colours, which people who are colour-blind tell apart, with grey, purple and brown for their yellow.
COLOURS = {
    "toe": ("#5f5f5f", "s", "--"),
    "ftml": ("#0072b2", "o", "-"),
    "ftml-vl": ("#009e73", "^", "-."),
    "ftml-vs": ("#d55e00", "D", "-"),
    "ftml+meta-sgd": ("#56b4e9", "v", (0, (5, 1, 1, 1, 1, 1))),
    "ftml-vs+meta-sgd": ("#e69f00", "P", (0, (7, 2))),
    "ftml-vs-closed-form": ("#cc79a7", "X", (0, (3, 1))),
    "a-gem": ("#000000", "*", ":"),
    "mann": ("#6a3d9a", "<", (0, (4, 2, 1, 2))),
    "protonet": ("#7a5c1e", "h", (0, (1, 1))),
}
WIDTH, LETTER = 4.8, 0.085  # of a figure and, about, of a letter in its legend, in inches
OTHERS = (">", "p", "d", "8", "H")  # markers of methods that are not in the list
RULES = {
    "svg.hashsalt": "anyshot",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "axes.titlesize": 11.5,
    "legend.fontsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.7,
    "lines.markersize": 5,
    "axes.formatter.useoffset": False,
}


@dataclass(frozen=True)
class Picture:
    """A figure and what belongs to it.

    Attributes:
        name: of its file.
        figure: itself.
        alt: for those who do not see it.
        embedded: as svg or png in the page; the former is sharper, the latter smaller for photographs.
    """

    name: str
    figure: Figure
    alt: str
    embedded: Literal["svg", "png"] = "svg"


@dataclass(frozen=True)
class Look:
    """A method's line."""

    color: str
    marker: str
    linestyle: Any


def look(learner: str, learners: list[str]) -> Look:
    """How a method is drawn; `learners` are all there are, for those that have no fixed look."""
    if _online(learner) in COLOURS:
        return Look(*COLOURS[_online(learner)])
    number = [name for name in learners if _online(name) not in COLOURS].index(learner)
    color, _, line = list(COLOURS.values())[-1 - number % len(COLOURS)]
    return Look(color, OTHERS[number % len(OTHERS)], line)


def _online(learner: str) -> str:
    """MAML is FTML with all tasks at once, and looks like it."""
    return learner.replace("maml", "ftml", 1)


@contextmanager
def our_style() -> Iterator[None]:
    """Matplotlib's defaults and our rules, whatever the user's own file says; as before afterwards."""
    with matplotlib.style.context(["default", RULES]):
        yield


def empty(title: str, x: str, y: str) -> tuple[Figure, Axes]:
    """A figure of one panel, of a size that reads well on a phone; x is counted: tasks, shots or steps."""
    figure = Figure(figsize=(WIDTH, 3.3), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, loc="left")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}".replace("-", "\N{MINUS SIGN}")))
    return figure, axes


def draw(axes: Axes, learner: str, learners: list[str], x: Any, values: np.ndarray) -> None:
    """The mean of `values` (one row a seed) as a line, and one standard deviation to both sides as a band."""
    like, seeds = look(learner, learners), len(values)
    mean = values.mean(axis=0)
    label = f"{learner} (n={seeds})"
    # Each method has its markers at other places, so that they stay apart where lines meet.
    every = max(1, len(mean) // 8)
    first = learners.index(learner) * every // max(1, len(learners)) % every if every > 1 else 0
    axes.plot(
        x, mean, color=like.color, marker=like.marker, linestyle=like.linestyle, label=label, markevery=(first, every)
    )
    if seeds > 1:
        spread = values.std(axis=0, ddof=1)
        axes.fill_between(x, mean - spread, mean + spread, color=like.color, alpha=0.18, linewidth=0)


def draw_bars(axes: Axes, learner: str, learners: list[str], x: Any, y: Any, error: Any, seeds: int) -> None:
    """Points with bars of `error` to both sides, and a line between them."""
    like = look(learner, learners)
    axes.errorbar(
        x,
        y,
        error,
        color=like.color,
        marker=like.marker,
        linestyle=like.linestyle,
        linewidth=1.2,
        elinewidth=1.5,
        capsize=3,
        label=f"{learner} (n={seeds})",
    )


def draw_each(axes: Axes, learner: str, learners: list[str], curves: Any, kept: Any) -> None:
    """One thin line for each seed (they may differ in length), with a marker at the point `kept` of each."""
    like = look(learner, learners)
    for (x, y), mark in zip(curves, kept, strict=True):
        axes.plot(x, y, color=like.color, linestyle=like.linestyle, linewidth=1.2, alpha=0.85)
        axes.plot(*mark, color=like.color, marker=like.marker, linestyle="none")
    axes.plot(
        [], [], color=like.color, marker=like.marker, linestyle=like.linestyle, label=f"{learner} (n={len(curves)})"
    )


def legend(figure: Figure, axes: Axes) -> None:
    """Below the panel, where it hides nothing; the figure grows by as much."""
    handles, labels = axes.get_legend_handles_labels()
    columns = 2 if 2 * (max(map(len, labels)) + 7) * LETTER < WIDTH else 1
    figure.set_figheight(figure.get_figheight() + 0.21 * -(-len(labels) // columns))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, handlelength=3.2)


def rendered(figure: Figure, form: str) -> bytes:
    """The file's bytes: svg or png, without dates or versions in them."""
    data = io.BytesIO()
    if form == "svg":
        figure.savefig(data, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    else:
        figure.savefig(data, format="png", dpi=150, metadata={"Software": None})
    return data.getvalue()
