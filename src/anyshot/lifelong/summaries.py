"""Tasks as tables and as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

import pandas as pd

from anyshot.lifelong.progress import tabulate
from anyshot.lifelong.record import Record

MOST_ROWS = 20  # of a table in a notebook


def tabulate_labels(record: Record) -> pd.DataFrame:
    """A row for each label of a task: what was predicted before it was seen."""
    return tabulate(record.start, record.facts, record.y, record.classes, record.ids)


def tabulate_tasks(records: Iterable[Record]) -> pd.DataFrame:
    """A row for each task: means over its labels of what was found before they were seen."""
    return pd.DataFrame([_summarise(record) for record in records])


def show_tasks(heading: str, records: list[Record]) -> str:
    """The last tasks as HTML, under a heading."""
    table = tabulate_tasks(records[-MOST_ROWS:]).to_html(index=False, float_format="{:.3f}".format, border=0)
    before = f"<p>The last {MOST_ROWS} tasks:</p>" if len(records) > MOST_ROWS else ""
    return f"<p>{escape(heading)}</p>{before}{table if records else ''}"


def _summarise(record: Record) -> dict[str, Any]:
    found = {"task": record.name, "labels": record.count, "classes": len(record.classes), "closed": record.closed}
    table = tabulate_labels(record)
    measures = [str(name) for name in table if str(name).split(".")[0] in ("right", "error", "loss")]
    return found | {name: float(table[name].mean()) for name in measures}
