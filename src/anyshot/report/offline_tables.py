"""What the comparison of offline runs says, in tables like the paper's table 1; rounded for people only."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from anyshot.report.formats import Shown, Table, difference, on_pairs, spread
from anyshot.report.offline_comparison import OfflineComparison, OfflineRow, standard_errors
from anyshot.report.spread import Difference, Spread

POINTS = 100  # in which accuracies are shown


def shown_offline(comparison: OfflineComparison) -> Shown:
    """Everything about a comparison that is written in any format."""
    group, points = comparison.group, ", in points" if comparison.group.measure == "accuracy" else ""
    return Shown(
        f"{group.title}: {_measured(comparison)}, mean {meaning(comparison)}",
        _means(comparison),
        f"Difference to {comparison.against} with the same seeds{points} [95 % confidence interval, paired t over "
        "seeds]",
        _paired(comparison),
        [
            *group.notes,
            *_uncertain(comparison),
            *on_pairs(comparison.against, {row.learner: row.pairs for row in comparison.rows}),
        ],
        _as_dict(comparison),
        [line for row in comparison.rows for line in _flat(comparison, row)],
    )


def meaning(comparison: OfflineComparison) -> str:
    """What ± stands for."""
    single = {len(row.seeds) == 1 for row in comparison.rows}
    deviation, error = "± standard deviation over seeds", "± standard error over test episodes"
    if single == {True, False}:
        return f"{deviation} ({error} where there is one seed)"
    return f"{error} (one seed each)" if True in single else deviation


def with_error(row: OfflineRow) -> list[Spread]:
    """The scores of a method with what ± stands for: the deviation over seeds, or the standard error with one."""
    return [
        score if score.deviation is not None else Spread(score.mean, error)
        for score, error in zip(row.scores, row.errors, strict=True)
    ]


def cell(comparison: OfflineComparison, value: Spread) -> str:
    """A score, accuracies in percent."""
    scale, digits = rounding(comparison)
    return spread(Spread(scale * value.mean, value.deviation and scale * value.deviation), digits)


def less(comparison: OfflineComparison, value: Difference) -> str:
    """A difference, of accuracies in points."""
    scale, digits = rounding(comparison)
    low, high = (end if end is None else scale * end for end in (value.low, value.high))
    return difference(Difference(scale * value.mean, low, high), digits)


def rounding(comparison: OfflineComparison) -> tuple[int, int]:
    """What numbers are multiplied with, and their decimals: losses have four digits that count, the least of them."""
    if comparison.group.measure == "accuracy":
        return POINTS, 1
    least = min((abs(score.mean) for row in comparison.rows for score in row.scores if score.mean), default=1.0)
    return 1, min(9, max(0, 3 - math.floor(math.log10(least))))


def _measured(comparison: OfflineComparison) -> str:
    return "test accuracy in percent" if comparison.group.measure == "accuracy" else "test loss"


def _head(comparison: OfflineComparison, second: str) -> list[str]:
    return ["Method", second, *(f"{shots}-Shot" for shots in comparison.group.shots)]


def _means(comparison: OfflineComparison) -> Table:
    rows = [
        [row.learner, str(len(row.seeds)), *(cell(comparison, value) for value in with_error(row))]
        for row in comparison.rows
    ]
    return [_head(comparison, "Seeds"), *rows]


def _paired(comparison: OfflineComparison) -> Table:
    table = [_head(comparison, "Pairs")]
    for row in comparison.rows:
        if row.learner != comparison.against:
            cells = [less(comparison, value) for value in row.differences] or ["none"] * len(row.scores)
            table.append([row.learner, str(len(row.pairs)), *cells])
    return table


def _uncertain(comparison: OfflineComparison) -> list[str]:
    """The tests that ran out of episodes before they were as certain as the plan wants them."""
    group, plan = comparison.group, comparison.group.settings.plan
    found = []
    for run in group.runs:
        of = [1.0 if group.measure == "accuracy" else abs(line["loss"]) for line in run.tests]
        worst = max(100 * error / (whole or 1.0) for error, whole in zip(standard_errors(run), of, strict=True))
        if worst > plan.standard_error:
            found.append(f"{run.learner} seed {run.seed} {worst:.2f}")
    unit = "points" if group.measure == "accuracy" else "percent"
    told = f"The standard error is above the {plan.standard_error:g} {unit} asked for, as the test ended at"
    return [f"{told} plan.most_episodes: {', '.join(found)}."] if found else []


def _as_dict(comparison: OfflineComparison) -> dict[str, Any]:
    group = comparison.group
    runs = [
        {
            "folder": str(run.folder),
            "learner": run.learner,
            "seed": run.seed,
            "steps": run.steps,
            "best_step": run.best["step"] if run.best else None,
            "tests": run.tests,
        }
        for run in group.runs
    ]
    return {
        "setting": group.title,
        "settings": group.settings.model_dump(mode="json"),
        "fingerprint": group.runs[0].fingerprint,
        "against": comparison.against,
        "measure": group.measure,
        "shots": group.shots,
        "rows": [asdict(row) for row in comparison.rows],
        "runs": runs,
    }


def _flat(comparison: OfflineComparison, row: OfflineRow) -> list[dict[str, Any]]:
    lines = []
    for place, shots in enumerate(comparison.group.shots):
        score, paired = row.scores[place], row.differences[place] if row.differences else None
        line = {
            "setting": comparison.group.title,
            "learner": row.learner,
            "seeds": len(row.seeds),
            "shots": shots,
            "measure": comparison.group.measure,
            "mean": score.mean,
            "deviation": score.deviation,
            "standard_error": row.errors[place],
            "against": comparison.against,
            "pairs": len(row.pairs),
        }
        for end in ("mean", "low", "high"):
            line[f"difference_{end}"] = getattr(paired, end) if paired else None
        lines.append(line)
    return lines
