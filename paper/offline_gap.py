"""How far offline Rainbow MNIST is below the paper, and how much of it each change of the setting closes."""

from __future__ import annotations

import numpy as np

from anyshot.report.statistics import Spread
from paper.results import Results
from paper.targets import TABLES, TARGETS, Table, method_of
from paper.text import format_spread, markdown

HEADING = "How much of the gap offline is closed"
TEXT = """The accuracy on unseen tasks, averaged over the numbers of shots, in percent. The gap is the paper's less
ours. Each setting is compared with order 0, in which four of the 20 training tasks decide when to stop. Means are over
seeds, and where the order follows the seed over orders as well."""


def write_gap(results: Results) -> list[str]:
    """The section, as Markdown; nothing before a run of `offline-gap` is there."""
    first = TABLES["table-1-rainbow-mnist"]
    rows = [["method", "setting", "ours, %", "seeds", "gap", "of it closed"]]
    for method in first.numbered:
        paper = float(np.mean([number.mean for number in first.paper[method]]))
        before = _gap(first, method, paper, results)
        for table in (first, *TARGETS["offline-gap"].tables):
            for label in [label for label in table.paper if method_of(label) == method]:
                ours = mean_accuracies(table, label, results)
                if not ours:
                    continue
                gap = paper - float(np.mean(ours))
                closed = f"{100 * (1 - gap / before):.0f} %" if before and table is not first else ""
                setting = "order 0" if table is first else f"{table.heading} (`{label}`)"
                cells = [format_spread(Spread.of(ours), 2), str(len(ours)), f"{gap:+.2f}", closed]
                rows.append([method, setting, *cells])
    known = any(results.of(table.preset, label) for table in TARGETS["offline-gap"].tables for label in table.paper)
    return [f"## {HEADING}", TEXT, markdown(rows)] if known else []


def mean_accuracies(table: Table, label: str, results: Results) -> list[float]:
    """Of each run of a method, the mean over its numbers of shots."""
    return [float(value) for value in results.rows(table.preset, label)[table.columns].mean(axis=1)]


def _gap(table: Table, method: str, paper: float, results: Results) -> float | None:
    ours = mean_accuracies(table, method, results)
    return paper - float(np.mean(ours)) if ours else None
