"""The table as text, Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from anyshot.report.comparison import Comparison, Difference, Row, Spread, last_quarter

SUFFIXES = {".txt": "text", ".csv": "csv", ".json": "json", ".md": "markdown", ".tex": "latex"}
Table = list[list[str]]


def written(comparisons: Sequence[Comparison], form: str) -> str:
    """The comparisons in one of the formats: text, csv, json, markdown, latex."""
    if form == "csv":
        return _csv(comparisons)
    if form == "json":
        return json.dumps([as_dict(one) for one in comparisons], indent=1, allow_nan=False) + "\n"
    one = {"text": _text, "markdown": _markdown, "latex": _latex}[form]
    return "\n".join(one(comparison) for comparison in comparisons)


def heading(comparison: Comparison) -> str:
    """What is in the first table."""
    tasks = comparison.group.tasks
    return f"{comparison.group.title}, {tasks} task{'s' * (tasks != 1)}: mean ± standard deviation over seeds"


def difference_heading(comparison: Comparison) -> str:
    """What is in the second table."""
    return f"Difference to {comparison.against} on the same streams [95 % confidence interval, paired t over seeds]"


def means(comparison: Comparison) -> Table:
    """The first table: what every method came to."""
    last = last_quarter(comparison.group.tasks)
    head = ["learner", "seeds", "cumulative loss", "labels", "mastered"]
    table = [[*head, f"zero-shot {comparison.measure}, last {last} task{'s' * (last != 1)}"]]
    for row in comparison.rows:
        cells = [spread(row.loss, 1), spread(row.labels, 0), spread(row.mastered, 1), spread(row.zero_shot, 3)]
        table.append([row.learner, str(len(row.seeds)), *cells])
    return table


def paired(comparison: Comparison) -> Table:
    """The second table: every other method less the reference."""
    table = [["learner", "pairs", "cumulative loss", "labels"]]
    for row in comparison.rows:
        if row.learner != comparison.against:
            cells = [difference(row.loss_difference, 1), difference(row.labels_difference, 0)]
            table.append([row.learner, str(len(row.pairs)), *cells])
    return table


def remarks(comparison: Comparison) -> list[str]:
    """What a reader must know: the group's notes and where an interval is missing."""
    found = list(comparison.group.notes)
    others = [row for row in comparison.rows if row.learner != comparison.against]
    single = [row.learner for row in others if len(row.pairs) == 1]
    if single:
        found.append(f"One seed in common with {comparison.against} gives no interval: {', '.join(single)}.")
    none = [row.learner for row in others if not row.pairs]
    if none:
        found.append(f"No seed in common with {comparison.against}, so no difference: {', '.join(none)}.")
    if not others:
        found.append(f"There are only runs of {comparison.against}, so there is nothing to compare them with.")
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


def as_dict(comparison: Comparison) -> dict[str, Any]:
    """All numbers, not rounded."""
    group = comparison.group
    runs = [{"folder": str(run.folder), "learner": run.learner, "seed": run.seed} for run in group.runs]
    return {
        "setting": group.title,
        "settings": group.settings.model_dump(mode="json"),
        "fingerprint": group.runs[0].fingerprint,
        "tasks": group.tasks,
        "against": comparison.against,
        "zero_shot_measure": comparison.measure,
        "zero_shot_tasks": last_quarter(group.tasks),
        "rows": [asdict(row) for row in comparison.rows],
        "runs": runs,
        "notes": remarks(comparison),
    }


def _csv(comparisons: Sequence[Comparison]) -> str:
    lines = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for comparison in comparisons:
        for row in comparison.rows:
            flat = _flat(comparison, row)
            if writer is None:
                writer = csv.DictWriter(lines, list(flat), lineterminator="\n")
                writer.writeheader()
            writer.writerow(flat)
    return lines.getvalue()


def _flat(comparison: Comparison, row: Row) -> dict[str, Any]:
    flat: dict[str, Any] = {
        "setting": comparison.group.title,
        "tasks": comparison.group.tasks,
        "learner": row.learner,
        "seeds": len(row.seeds),
    }
    for name in ("loss", "labels", "mastered", "zero_shot"):
        value: Spread = getattr(row, name)
        flat |= {f"{name}_mean": value.mean, f"{name}_deviation": value.deviation}
    flat |= {"zero_shot_measure": comparison.measure, "against": comparison.against, "pairs": len(row.pairs)}
    for name in ("loss_difference", "labels_difference"):
        less: Difference | None = getattr(row, name)
        for end in ("mean", "low", "high"):
            flat[f"{name}_{end}"] = getattr(less, end) if less else None
    return flat


def _text(comparison: Comparison) -> str:
    parts = [heading(comparison), "", *_aligned(means(comparison)), ""]
    if len(comparison.rows) > 1:
        parts += [difference_heading(comparison), "", *_aligned(paired(comparison)), ""]
    return "\n".join([*parts, *(f"note: {sentence}" for sentence in remarks(comparison))]).rstrip() + "\n"


def _aligned(table: Table) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if number == 1 else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]


def _markdown(comparison: Comparison) -> str:
    def rows(table: Table) -> list[str]:
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table]
        return [lines[0], "| " + " | ".join("---" for _ in table[0]) + " |", *lines[1:]]

    parts = [heading(comparison), "", *rows(means(comparison)), ""]
    if len(comparison.rows) > 1:
        parts += [difference_heading(comparison), "", *rows(paired(comparison)), ""]
    return "\n".join([*parts, *(f"- {sentence}" for sentence in remarks(comparison))]).rstrip() + "\n"


def _latex(comparison: Comparison) -> str:
    def rows(table: Table) -> list[str]:
        lines = [" & ".join(map(_tex, row)) + r" \\" for row in table]
        columns = "l" + "r" * (len(table[0]) - 1)
        inside = [r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
        return [rf"\begin{{tabular}}{{{columns}}}", *inside, r"\end{tabular}"]

    parts = ["% needs \\usepackage{booktabs}", f"% {heading(comparison)}", *rows(means(comparison))]
    if len(comparison.rows) > 1:
        parts += ["", f"% {difference_heading(comparison)}", *rows(paired(comparison))]
    return "\n".join([*parts, *(f"% {sentence}" for sentence in remarks(comparison))]) + "\n"


TEX = {"&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{", "}": r"\}", "\\": r"\textbackslash{}"}


def _tex(cell: str) -> str:
    escaped = "".join(TEX.get(letter, letter) for letter in cell)
    return escaped.replace("±", r"$\pm$").replace("-", "$-$") if cell[:1] in "+-0123456789" else escaped
