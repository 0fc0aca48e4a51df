"""How figures look: one colour, marker and line for each method in every figure, and the same bytes every time."""

from __future__ import annotations

import io
import itertools
import math
import re
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

# Okabe and Ito's colours, which people who are colour-blind tell apart, with grey, purple, brown, wine, dark green and
# olive for their yellow.
LOOKS: dict[str, tuple[str, str, Any]] = {
    "anyshot": ("#cc0033", "p", "-"),
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
    "ridge-head": ("#882255", "H", (0, (6, 1, 2, 1))),
    "scratch": ("#117733", ">", (0, (4, 1, 1, 1))),
    "scratch-kernel": ("#44aa99", "3", (0, (5, 1))),
    "scratch-network": ("#999933", "d", (0, (2, 1))),
}
OTHER_MARKERS = ("8", "1", "2")  # of methods that have no look of their own
WIDTH, LETTER = 4.8, 0.085  # of a figure and, about, of a letter in its legend, in inches
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
        figure: the figure itself.
        alt: a description for those who do not see it.
        embedded: as svg or png in the page; the former is sharper, the latter smaller for photographs.
    """

    name: str
    figure: Figure
    alt: str
    embedded: Literal["svg", "png"] = "svg"


@dataclass(frozen=True)
class Look:
    """How the line of a method is drawn."""

    color: str
    marker: str
    linestyle: Any


def choose_looks(learners: Mapping[str, str]) -> dict[str, Look]:
    """A look for each method; the first method of a known learner has the look of that learner.

    Args:
        learners: the learner of each method.
    """
    looks: dict[str, Look] = {}
    for method, learner in learners.items():
        # MAML is FTML with all tasks at once, and looks like it.
        known = LOOKS.get(re.sub("^maml", "ftml", learner))
        if known and Look(*known) not in looks.values():
            looks[method] = Look(*known)
    taken = {look.color for look in looks.values()}
    colours = [(color, line) for color, _, line in LOOKS.values()]
    free = [pair for pair in colours if pair[0] not in taken] or colours
    others = (method for method in learners if method not in looks)
    looks |= {m: Look(*pair) for m, pair in zip(others, _combine(free), strict=False)}
    return {method: looks[method] for method in learners}


def _combine(free: Sequence[tuple[str, Any]]) -> Iterator[tuple[str, str, Any]]:
    """Colours and lines with markers that no known learner has, all combinations in turn."""
    for turn in itertools.count():
        for number, (color, line) in enumerate(reversed(free)):
            yield color, OTHER_MARKERS[(number + turn) % len(OTHER_MARKERS)], line


@contextmanager
def our_style() -> Iterator[None]:
    """Matplotlib's defaults and our rules, whatever the user's own file says; as before afterwards."""
    with matplotlib.style.context(["default", RULES]):
        yield


class Panel:
    """A figure of one panel, of a size that reads well on a phone, with its legend below.

    Args:
        title: of the figure.
        x: what is counted along the x axis, such as tasks or shots.
        y: what the y axis shows.
        formulas: whether title and y have some; otherwise a dollar sign is one.
    """

    def __init__(self, title: str, x: str, y: str, *, formulas: bool = False) -> None:
        self.formulas = formulas
        self.figure = Figure(figsize=(WIDTH, 3.3), layout="constrained")
        self.axes = self.figure.subplots()
        self.axes.set_title(_wrap(title, 54), loc="left", parse_math=formulas)
        self.axes.set_xlabel(x)
        self.axes.set_ylabel(y, parse_math=formulas)
        self.axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
        minus = "\N{MINUS SIGN}"
        self.axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}".replace("-", minus)))
        self.entries: list[tuple[Line2D, str]] = []  # of the legend
        self.least = math.inf  # of the values

    def line(self, method: str, look: Look, x: Any, values: np.ndarray) -> None:
        """The mean of `values` (one row a seed) as a line, one standard deviation to both sides as a band."""
        mean = values.mean(axis=0)
        self.least = min(self.least, float(np.nanmin(mean)))
        # Each method has its markers at other places, so that they stay apart where lines meet.
        step = max(1, len(mean) // 8)
        marks = (len(self.entries) * 3 % step, step)
        (line,) = self.axes.plot(
            x, mean, color=look.color, marker=look.marker, linestyle=look.linestyle, markevery=marks
        )
        self.entries.append((line, f"{method} (n={len(values)})"))
        if len(values) > 1:
            spread = values.std(axis=0, ddof=1)
            self.axes.fill_between(x, mean - spread, mean + spread, color=look.color, alpha=0.18, linewidth=0)

    def bars(self, method: str, look: Look, x: Any, y: Any, error: Any, seeds: int) -> None:
        """Points with bars of `error` to both sides, and a line between them."""
        style: dict[str, Any] = {"color": look.color, "marker": look.marker, "linestyle": look.linestyle}
        drawn = self.axes.errorbar(x, y, error, linewidth=1.2, elinewidth=1.5, capsize=3, **style)
        self.entries.append((drawn.lines[0], f"{method} (n={seeds})"))

    def runs(self, method: str, look: Look, curves: Sequence[Any], kept: Sequence[Any]) -> None:
        """One thin line for each seed, with a marker at the point `kept` of each."""
        for (x, y), mark in zip(curves, kept, strict=True):
            self.least = min(self.least, float(np.min(y)))
            self.axes.plot(x, y, color=look.color, linestyle=look.linestyle, linewidth=1.2, alpha=0.85)
            self.axes.plot(*mark, color=look.color, marker=look.marker, linestyle="none")
        entry = Line2D([], [], color=look.color, marker=look.marker, linestyle=look.linestyle)
        self.entries.append((entry, f"{method} (n={len(curves)})"))

    def level(self, y: float | int, name: str) -> None:
        """A thin horizontal line; it is in the legend if it has a name."""
        line = self.axes.axhline(y, color="black", linewidth=0.9, linestyle=(0, (1, 3)) if name else "-")
        if name:
            self.entries.append((line, name))

    def picture(self, alt: str, name: str = "") -> Picture:
        """The figure with its legend below the panel, where it hides nothing; the figure grows by as much.

        Args:
            alt: a short description, to which axes and methods are added.
            name: of the file; by default the description.
        """
        if self.least < 0:
            self.level(0, "")
        elif self.least < math.inf:
            self.axes.set_ylim(bottom=0)
        handles = [handle for handle, _ in self.entries]
        labels = [_wrap(label, 46) for _, label in self.entries]
        columns = 2 if 2 * (max(map(len, labels)) + 7) * LETTER < WIDTH else 1
        lines = sum(label.count("\n") + 1 for label in labels)
        self.figure.set_figheight(self.figure.get_figheight() + 0.21 * -(-lines // columns))
        # A legend leaves out labels that begin with an underscore, so they are set afterwards.
        places = [str(number) for number in range(len(labels))]
        legend = self.figure.legend(
            handles, places, loc="outside lower center", ncols=columns, frameon=False, handlelength=3.2
        )
        for text, label in zip(legend.get_texts(), labels, strict=True):
            text.set_parse_math(False)
            text.set_text(label)
        methods = ", ".join(label for _, label in self.entries)
        about = f"{alt}: {self.axes.get_ylabel()} against {self.axes.get_xlabel()}, for {methods}."
        return Picture(name or alt, self.figure, re.sub(r"\$\\?", "", about) if self.formulas else about)


def _wrap(text: str, width: int) -> str:
    return "\n".join(textwrap.fill(line, width) for line in text.splitlines())


def share_scale(panels: Mapping[str, Panel], top: float | None = None) -> list[Picture]:
    """The pictures of panels by their descriptions, with the same y axis, from zero to `top` or the largest value."""
    top = top or max((panel.axes.get_ylim()[1] for panel in panels.values()), default=None)
    for panel in panels.values():
        panel.axes.set_ylim(0, top)
    return [panel.picture(alt) for alt, panel in panels.items()]


def render(figure: Figure, form: str) -> bytes:
    """The bytes of a file, svg or png, without dates or versions in them."""
    data = io.BytesIO()
    options: dict[str, Any] = {"metadata": {"Software": None}, "dpi": 150}
    if form == "svg":
        options = {"metadata": {"Date": None, "Creator": None, "Format": None, "Type": None}}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # of a name in another script
        figure.savefig(data, format=form, **options)
    return data.getvalue()
