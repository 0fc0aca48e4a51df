"""What the comparison of online runs says, as tables: for people rounded, for programs not."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from anyshot.report.formats import Shown, Table, difference, on_pairs, spread
from anyshot.report.online_comparison import Comparison, Row, last_quarter
from anyshot.report.spread import Difference, Spread


def shown_online(comparison: Comparison) -> Shown:
    """Everything about a comparison that is written in any format."""
    return Shown(
        _heading(comparison),
        _means(comparison),
        f"Difference to {comparison.against} on the same streams [95 % confidence interval, paired t over seeds]",
        _paired(comparison),
        [*comparison.group.notes, *on_pairs(comparison.against, {row.learner: row.pairs for row in comparison.rows})],
        _as_dict(comparison),
        [_flat(comparison, row) for row in comparison.rows],
    )


def _heading(comparison: Comparison) -> str:
    tasks = comparison.group.tasks
    return f"{comparison.group.title}, {tasks} task{'s' * (tasks != 1)}: mean ± standard deviation over seeds"


def _means(comparison: Comparison) -> Table:
    last = last_quarter(comparison.group.tasks)
    head = ["learner", "seeds", "cumulative loss", "labels", "mastered"]
    table = [[*head, f"zero-shot {comparison.measure}, last {last} task{'s' * (last != 1)}"]]
    for row in comparison.rows:
        cells = [spread(row.loss, 1), spread(row.labels, 0), spread(row.mastered, 1), spread(row.zero_shot, 3)]
        table.append([row.learner, str(len(row.seeds)), *cells])
    return table


def _paired(comparison: Comparison) -> Table:
    table = [["learner", "pairs", "cumulative loss", "labels"]]
    for row in comparison.rows:
        if row.learner != comparison.against:
            cells = [difference(row.loss_difference, 1), difference(row.labels_difference, 0)]
            table.append([row.learner, str(len(row.pairs)), *cells])
    return table


def _as_dict(comparison: Comparison) -> dict[str, Any]:
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
    }


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
