"""Comparisons as text, Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from tabulate import tabulate

from anyshot.atomic import write_text
from anyshot.errors import InputError
from anyshot.report.comparison import Comparison, Measure
from anyshot.report.methods import is_missing
from anyshot.report.words import count, join

SUFFIXES = {".txt": "text", ".csv": "csv", ".json": "json", ".md": "markdown", ".tex": "latex"}


@dataclass(frozen=True)
class Table:
    """A table for people: rows begin with a name, the rest is text as well."""

    caption: str
    columns: list[str]
    rows: list[list[str]]


def write_comparisons(comparisons: Sequence[Comparison], out: str | Path, form: str | None = None) -> None:
    """Write comparisons to a file.

    Args:
        comparisons: what `compare` gave.
        out: the file; it is replaced if it is there.
        form: text, csv, json, markdown or latex; by default as the name of the file ends.
    """
    write_text(Path(out), format_comparisons(comparisons, form or choose_format(Path(out))))


def choose_format(out: Path) -> str:
    """The format that a file's name asks for.

    >>> choose_format(Path("table.md"))
    'markdown'
    """
    if out.suffix.lower() not in SUFFIXES:
        raise InputError(f"out must end in {join(SUFFIXES)} if no format is given, got {str(out)!r}")
    return SUFFIXES[out.suffix.lower()]


def format_comparisons(comparisons: Sequence[Comparison], form: str) -> str:
    """Comparisons as text, csv, json, markdown or latex."""
    if form == "csv":
        return pd.concat(map(list_numbers, comparisons)).to_csv(index=False, lineterminator="\n")
    if form == "json":
        return json.dumps(list(map(_as_json, comparisons)), indent=1, allow_nan=False) + "\n"
    if form not in SUFFIXES.values():
        raise InputError(f"form must be one of {join(SUFFIXES.values())}, got {form!r}")
    write = {"text": _as_text, "markdown": _as_markdown, "latex": _as_latex}[form]
    return "\n".join(write(one) for one in comparisons)


def make_tables(comparison: Comparison, *, titled: bool = True) -> list[Table]:
    """The means of all methods and, if there are others than the reference, their differences to it.

    Args:
        comparison: what to show.
        titled: whether the caption has the title of the comparison.
    """
    seeds, measures = comparison.table["n"], comparison.measures
    title = f"{comparison.title}, " if titled else ""
    scope = "test accuracy in percent" if comparison.group.measure == "accuracy" else "test loss"
    scope = count(comparison.group.num_tasks, "task") if comparison.kind == "online" else scope
    rows = [[m, str(seeds[m]), *(mean_cell(comparison, m, one) for one in measures)] for m in comparison.methods]
    heads = ["method", "n", *(measure.heading for measure in measures)]
    caption = f"{title}{scope}: {describe_spread(comparison)}"
    means = Table(caption if titled else caption[0].upper() + caption[1:], heads, rows)
    compared = [measure for measure in measures if measure.compared]
    pairs = dict(zip(comparison.differences["method"], comparison.differences["n"], strict=True))
    others = [method for method in comparison.methods if method != comparison.against]
    rows = [[m, str(pairs.get(m, 0)), *(_difference_cell(comparison, m, one) for one in compared)] for m in others]
    points = " in points" if measures[0].scale == 100 else ""
    caption = f"Difference to {comparison.against}{points}, same seeds [95 % interval, paired t]"
    return [means, Table(caption, ["method", "n", *(one.heading for one in compared)], rows)] if others else [means]


def describe_spread(comparison: Comparison) -> str:
    """What the numbers of the table are."""
    single = (comparison.table["n"] == 1) & (f"{comparison.measures[0].name}_error" in comparison.table)
    if single.all():
        return "one seed ± standard error over test episodes"
    some = " (± standard error over test episodes where n = 1)" if single.any() else ""
    return f"mean ± standard deviation over n seeds{some}"


def mean_cell(comparison: Comparison, method: str, measure: Measure) -> str:
    """Mean ± deviation over seeds, or ± standard error over test episodes of one seed."""
    row, name = comparison.table.loc[method], measure.name
    spread = row[f"{name}_deviation"] if row["n"] > 1 else row.get(f"{name}_error", float("nan"))
    text = f"{measure.scale * row[f'{name}_mean']:,.{measure.digits}f}"
    return text if is_missing(spread) else f"{text} ± {measure.scale * spread:,.{measure.digits}f}"


def _difference_cell(comparison: Comparison, method: str, measure: Measure) -> str:
    found = comparison.difference(method, measure.name)
    if found is None:
        return "none"
    mean, *ends = (
        f"{measure.scale * end:+,.{measure.digits}f}" for end in (found.mean, found.low, found.high) if end is not None
    )
    return f"{mean} [{', '.join(ends)}]" if ends else mean


def list_numbers(comparison: Comparison) -> pd.DataFrame:
    """All numbers, not rounded: one row a method and measure."""
    named = {"title": comparison.title, "kind": comparison.kind, "against": comparison.against}
    rows = []
    for method, row in comparison.table.iterrows():
        for name in (measure.name for measure in comparison.measures):
            values = {end: row.get(f"{name}_{end}") for end in ("mean", "deviation", "error")}
            rows.append(
                {**named, "method": method, "learner": row["learner"], "measure": name, "n": row["n"], **values}
            )
    differences = comparison.differences.rename(columns={"mean": "difference", "n": "pairs"})
    return pd.DataFrame(rows).merge(differences.astype({"pairs": "Int64"}), "left", on=["method", "measure"])


def _as_json(comparison: Comparison) -> dict[str, Any]:
    runs = comparison.group.runs
    settings = [name for name in map(str, runs) if "." in name and not name.startswith(("train.", "rate."))]
    shared = [name for name in settings if runs[name].map(repr).nunique() == 1]
    return {
        "title": comparison.title,
        "kind": comparison.kind,
        "against": comparison.against,
        "tasks": comparison.group.num_tasks or None,
        "measures": [asdict(measure) for measure in comparison.measures],
        "table": _records(comparison.table.reset_index()),
        "differences": _records(comparison.differences),
        "settings": _records(runs[shared].head(1))[0],
        "runs": _records(runs[["run", "method", "learner", "seed"]]),
        "notes": list(comparison.notes),
    }


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON: what is missing becomes null."""
    return [{str(n): None if is_missing(v) else v for n, v in row.items()} for row in table.to_dict("records")]


def _as_text(comparison: Comparison) -> str:
    tables = [f"{table.caption}\n\n{_align(table, 'simple')}\n" for table in make_tables(comparison)]
    return "\n".join([*tables, *(f"note: {note}" for note in comparison.notes)]).rstrip() + "\n"


def _as_markdown(comparison: Comparison) -> str:
    tables = []
    for table in make_tables(comparison):
        rows = [[escape_markdown(name), *cells] for name, *cells in table.rows]
        tables.append(f"{escape_markdown(table.caption)}\n\n{_align(Table('', table.columns, rows), 'pipe')}\n")
    return "\n".join([*tables, *(f"- {escape_markdown(note)}" for note in comparison.notes)]).rstrip() + "\n"


def _as_latex(comparison: Comparison) -> str:
    tables = []
    for table in make_tables(comparison):
        text = _align(table, "latex_booktabs").replace("±", r"$\pm$")  # tabulate has escaped what LaTeX reads
        text = re.sub(r"(?<![\w-])-(?=\d)", "$-$", text)
        text = re.sub(r"^ \[", " {[}", text, flags=re.M)  # or it would be an argument of the \\ before it
        tables.append(f"% {table.caption}\n{text}\n")
    notes = [f"% {note}" for note in comparison.notes]
    return "\n".join([r"% needs \usepackage{booktabs}", *tables, *notes]).rstrip() + "\n"


def escape_markdown(text: str) -> str:
    r"""Text that Markdown shows as it is.

    >>> print(escape_markdown("_x | a_b <i>"))
    \_x \| a_b \<i\>
    """
    text = re.sub(r"([\\`*\[\]<>|&~#$])", r"\\\1", text)
    return re.sub(r"(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])", r"\\_", text)


def _align(table: Table, form: str) -> str:
    align = ("left", *["right"] * (len(table.columns) - 1))
    return tabulate(table.rows, table.columns, tablefmt=form, colalign=align, disable_numparse=True)
