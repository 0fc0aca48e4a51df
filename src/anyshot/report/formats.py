"""Comparisons as text, Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anyshot.report.spread import Difference, Spread

SUFFIXES = {".txt": "text", ".csv": "csv", ".json": "json", ".md": "markdown", ".tex": "latex"}
Table = list[list[str]]


@dataclass(frozen=True)
class Shown:
    """A comparison, ready to be written.

    Attributes:
        heading: what is in the first table.
        means: what every method came to.
        difference_heading: what is in the second table.
        paired: every other method less the reference.
        remarks: what a reader must know.
        values: all numbers, not rounded, for JSON; the remarks are added.
        flat: the same as lines of one table, for CSV.
    """

    heading: str
    means: Table
    difference_heading: str
    paired: Table
    remarks: list[str]
    values: dict[str, Any]
    flat: list[dict[str, Any]]

    @property
    def tables(self) -> list[tuple[str, Table]]:
        """Headings and tables; the second only if there is something in it."""
        both = [(self.heading, self.means), (self.difference_heading, self.paired)]
        return both if len(self.paired) > 1 else both[:1]


def written(shown: Sequence[Shown], form: str) -> str:
    """The comparisons in one of the formats: text, csv, json, markdown, latex."""
    if form == "csv":
        return _csv([line for one in shown for line in one.flat])
    if form == "json":
        return json.dumps([one.values | {"notes": one.remarks} for one in shown], indent=1, allow_nan=False) + "\n"
    write = {"text": _text, "markdown": _markdown, "latex": _latex}[form]
    return "\n".join(write(one) for one in shown)


def on_pairs(against: str, pairs: Mapping[str, Sequence[int]]) -> list[str]:
    """Where a difference or its interval is missing, given the seeds that each method has in common with `against`."""
    others = {learner: seeds for learner, seeds in pairs.items() if learner != against}
    if not others:
        return [f"There are only runs of {against}, so there is nothing to compare them with."]
    found = []
    single = [learner for learner, seeds in others.items() if len(seeds) == 1]
    if single:
        found.append(f"One seed in common with {against} gives no interval: {', '.join(single)}.")
    none = [learner for learner, seeds in others.items() if not seeds]
    if none:
        found.append(f"No seed in common with {against}, so no difference: {', '.join(none)}.")
    return found


def spread(value: Spread, digits: int) -> str:
    """Mean ± standard deviation.

    >>> spread(Spread(1234.56, 7.0), 1), spread(Spread(3.0, None), 0)
    ('1,234.6 ± 7.0', '3')
    """
    more = "" if value.deviation is None else f" ± {value.deviation:,.{digits}f}"
    return f"{value.mean:,.{digits}f}{more}"


def difference(value: Difference | None, digits: int) -> str:
    """Mean [low, high].

    >>> difference(Difference(-2.0, -4.5, 0.5), 1)
    '-2.0 [-4.5, +0.5]'
    """
    if value is None:
        return "none"
    more = "" if value.low is None else f" [{value.low:+,.{digits}f}, {value.high:+,.{digits}f}]"
    return f"{value.mean:+,.{digits}f}{more}"


def _csv(lines: list[dict[str, Any]]) -> str:
    """One table; online and offline runs fill different columns of it."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for line in lines for name in line)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _text(shown: Shown) -> str:
    parts = [line for heading, table in shown.tables for line in (heading, "", *aligned(table), "")]
    return "\n".join([*parts, *(f"note: {sentence}" for sentence in shown.remarks)]).rstrip() + "\n"


def aligned(table: Table) -> list[str]:
    """The lines of a table whose columns line up; numbers of seeds to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if number == 1 else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]


def _markdown(shown: Shown) -> str:
    def rows(table: Table) -> list[str]:
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table]
        return [lines[0], "| " + " | ".join("---" for _ in table[0]) + " |", *lines[1:]]

    parts = [line for heading, table in shown.tables for line in (heading, "", *rows(table), "")]
    return "\n".join([*parts, *(f"- {sentence}" for sentence in shown.remarks)]).rstrip() + "\n"


def _latex(shown: Shown) -> str:
    def rows(table: Table) -> list[str]:
        lines = [" & ".join(map(_tex, row)) + r" \\" for row in table]
        columns = "l" + "r" * (len(table[0]) - 1)
        inside = [r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
        return [rf"\begin{{tabular}}{{{columns}}}", *inside, r"\end{tabular}"]

    tables = ["\n".join([f"% {heading}", *rows(table)]) for heading, table in shown.tables]
    parts = ["% needs \\usepackage{booktabs}", "\n\n".join(tables)]
    return "\n".join([*parts, *(f"% {sentence}" for sentence in shown.remarks)]) + "\n"


TEX = {"&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{", "}": r"\}", "\\": r"\textbackslash{}"}


def _tex(cell: str) -> str:
    escaped = "".join(TEX.get(letter, letter) for letter in cell)
    return re.sub(r"(?<!\w)-(?=\d)", "$-$", escaped.replace("±", r"$\pm$"))
