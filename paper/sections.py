"""One of the paper's tables beside ours."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from anyshot.report.statistics import Spread
from paper.pairs import Pair, describe_verdict, list_pairs
from paper.records import CONSTANT
from paper.results import Results
from paper.targets import CUMULATIVE_LOSS, Table
from paper.text import describe_certainty, format_difference, format_spread, markdown


def write_section(table: Table, results: Results, pictures: Sequence[str] = ()) -> str:
    """All about one table, as Markdown; `pictures` are added at the end."""
    where = f"In the paper: {table.where}. Here: `python -m paper {table.name}`, preset `{table.preset}`."
    parts = [f"## {table.heading}", where, table.note, markdown(_value_rows(table, results))]
    pairs = [(column, pair) for column in table.columns for pair in list_pairs(table, results, column)]
    if any(pair.ours for _, pair in pairs):
        parts += [markdown(_pair_rows(table, pairs)), _count_agreement([pair for _, pair in pairs])]
    return "\n\n".join(filter(None, [*parts, *pictures]))


def _value_rows(table: Table, results: Results) -> list[list[str]]:
    """The paper's numbers and ours, with what ours cost."""
    head = ["method", "paper", "ours", "seeds", "ours / paper", "labels", "tasks mastered", "steps", "minutes"]
    if table.offline:
        head = ["method", "shots", "paper, %", "ours, %", "seeds", "ours / paper", "steps", "minutes"]
    rows, digits = [head], 2 if table.offline else 1
    shares = {label: share_of_constant(table, results.rows(table.preset, label, table.tuning)) for label in table.paper}
    if any(len(share) for share in shares.values()):
        head.insert(3, "share of a constant's")
    for label, numbers in table.paper.items():
        ours = results.rows(table.preset, label, table.tuning)
        costs = [describe_spread(ours["steps"], 0), _describe_minutes(ours)]
        counts = [describe_spread(ours["labels"], 0), describe_spread(ours["mastered"], 1)]
        for place, column in enumerate(table.columns):
            paper, ratio = "no number", ""
            if numbers:
                paper = format_spread(Spread(*numbers[place], 3), digits)
                ratio = f"{ours[column].mean() / numbers[place].mean:.2f}" if len(ours) else ""
            cells = [paper, describe_spread(ours[column], digits) or "not run", str(len(ours)), ratio]
            if table.offline:
                first = place == 0
                rows.append([label * first, column, *cells, *(cost * first for cost in costs)])
            else:
                share = [describe_spread(shares[label], 3)] if "share of a constant's" in head else []
                rows.append([label, *cells[:2], *share, *cells[2:], *counts, *costs])
    return rows


def share_of_constant(table: Table, rows: pd.DataFrame) -> pd.Series[float]:
    """The cumulative loss of each run as a share of that of a constant prediction, where that is known."""
    if table.offline:
        return pd.Series(dtype=float)
    constant = rows[CONSTANT] if table.constant is None else rows[CONSTANT].fillna(table.constant)
    return (rows[CUMULATIVE_LOSS] / constant).dropna()


def describe_spread(values: pd.Series[float], digits: int) -> str:
    """Mean ± standard deviation of a column; nothing if it is empty."""
    return format_spread(Spread.of(values.tolist()), digits) if len(values) else ""


def _describe_minutes(rows: pd.DataFrame) -> str:
    """Of a run, and how many shared the GPU."""
    known = rows["minutes"].dropna()
    if not len(known):
        return "not kept" if len(rows) else ""
    at_once = int(rows["at_once"].max())
    return f"{known.mean():.1f}" + (f" (up to {at_once} at once)" if at_once > 1 else "")


def _pair_rows(table: Table, pairs: Sequence[tuple[str, Pair]]) -> list[list[str]]:
    claimed, digits = any(pair.claimed for _, pair in pairs), 2 if table.offline else 1
    methods = ["better in the paper", "worse in the paper"] if claimed else ["method", "against"]
    by = ["shots" if table.offline else "labels, paired"]
    rows = [[*methods, *by, "paper's difference", "ours, paired", "better on", "verdict"]]
    for column, pair in pairs:
        gap = "none" if pair.paper is None else f"{pair.paper:+,.{digits}f}" + ", within its spread" * pair.within
        labels = format_difference(pair.labels, 0) if pair.labels else ""
        ours = ["", "", "not run"]
        if pair.ours:
            verdict = f"{describe_verdict(pair.ours, pair.claimed)}: {describe_certainty(pair.ours)}"
            ours = [format_difference(pair.ours, digits), f"{pair.wins} of {pair.ours.n}", verdict]
        rows.append([pair.first, pair.second, column if table.offline else labels, gap, *ours])
    return rows


def _count_agreement(pairs: Sequence[Pair]) -> str:
    both = [(pair.ours.mean * pair.claimed > 0, pair.ours) for pair in pairs if pair.ours and pair.claimed]
    if not both:
        return "The paper does not order these methods."
    same, reverse = ([ours.excludes_zero for agrees, ours in both if agrees is way] for way in (True, False))
    return (
        f"Of {len(both)} pair{'s' * (len(both) > 1)} that the paper orders and we have run, {len(same)} have its order "
        f"({sum(same)} with an interval that excludes 0) and {len(reverse)} the reverse order ({sum(reverse)})."
    )
