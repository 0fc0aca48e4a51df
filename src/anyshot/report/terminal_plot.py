"""Curves in a terminal: braille dots in colour, or a letter for each method where there are no colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.text import Text

# Which bit of a braille character is the dot in a column (of 2) and a row (of 4).
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
BRAILLE = 0x2800
MARGIN = 9  # columns for the numbers at the left


@dataclass(frozen=True)
class Curve:
    """One line of a plot.

    Attributes:
        points: (x, y), by increasing x.
        style: its colour, as rich knows it.
        letter: stands for it where there are no colours.
    """

    points: Sequence[tuple[float, float]]
    style: str
    letter: str


def plot(title: str, x_title: str, curves: Sequence[Curve], width: int, height: int, colour: bool) -> list[Text]:
    r"""A plot as lines of text, `height` of them and at most `width` wide, from zero to the largest value.

    >>> lines = plot("loss", "tasks", [Curve([(1.0, 0.0), (2.0, 4.0)], "red", "a")], 20, 5, colour=False)
    >>> print("\n".join(line.plain.rstrip() for line in lines))
    loss
          4 │       aaa
            │   aaaa
          0 │aaa
             1 tasks  2
    """
    columns, rows = max(4, width - MARGIN - 1), max(1, height - 2)
    points = [point for curve in curves for point in curve.points]
    first, last = (min(x for x, _ in points), max(x for x, _ in points)) if points else (0.0, 0.0)
    top = max([y for _, y in points], default=0.0)
    top = top if top > 0 else 1.0
    across, up = (2, 4) if colour else (1, 1)
    cells: dict[tuple[int, int], tuple[int, Curve]] = {}
    for curve in curves:
        for x, y in _list_dots(curve.points, (first, last), top, columns * across, rows * up):
            row, column = rows - 1 - y // up, x // across
            dot = DOTS[x % 2][3 - y % 4] if colour else 0
            cells[row, column] = (cells.get((row, column), (0, curve))[0] | dot, curve)
    lines = [Text(title, style="bold", no_wrap=True)]
    for row in range(rows):
        number = format_number(top) if row == 0 else "0" if row == rows - 1 else ""
        line = Text(f"{number:>{MARGIN - 2}} │", style="dim", no_wrap=True)
        for column in range(columns):
            dots, owner = cells.get((row, column), (0, None))
            if owner is None:
                line.append(" ")
            else:
                line.append(chr(BRAILLE + dots) if colour else owner.letter, style=f"not dim {owner.style}")
        lines.append(line)
    ends = format_number(first), format_number(last)
    middle = x_title.center(max(0, columns - len(ends[0]) - len(ends[1])))
    lines.append(Text(f"{'':{MARGIN}}{ends[0]}{middle}{ends[1]}" if points else " " * MARGIN, style="dim"))
    return lines


def _list_dots(
    points: Sequence[tuple[float, float]], ends: tuple[float, float], top: float, columns: int, rows: int
) -> list[tuple[int, int]]:
    """The dots of a curve: each column that it passes has one, and as many above each other as make it connected."""
    across, up = (columns - 1) / ((ends[1] - ends[0]) or 1.0), (rows - 1) / top
    places = [(round((x - ends[0]) * across), round(max(0.0, y) * up)) for x, y in points]
    dots = places[:1]
    for (x0, y0), (x1, y1) in pairwise(places):
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        dots += [(round(x0 + (x1 - x0) * n / steps), round(y0 + (y1 - y0) * n / steps)) for n in range(1, steps + 1)]
    return dots


def format_number(value: float) -> str:
    """A number of at most seven characters.

    >>> format_number(12345.6), format_number(0.25), format_number(3.0), format_number(1234567.0)
    ('12,346', '0.25', '3', '1.2e+06')
    """
    if value >= 1e6:
        return f"{value:.1e}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
