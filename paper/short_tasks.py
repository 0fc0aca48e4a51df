"""Short tasks: what the rule is worth where the number of shots differs at every evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from anyshot.report.statistics import Difference
from paper.first_step import PAIRS, Compared, compare_methods, count_clear, difference_rows
from paper.records import Online
from paper.results import Results
from paper.sections import describe_spread
from paper.targets import CUMULATIVE_LOSS, TARGETS, Table, method_of
from paper.text import describe_certainty, format_difference, markdown

HEADING = "Short tasks"
TEXT = """In the paper's protocol most evaluations have exactly M shots, which hardly tests a rule for the number of
shots. Here a task ends after 100 steps with 5 meta-updates in each, and is evaluated once with each of 0, 2, 4, ..., 20
shots. The three methods are those of "What the rule is worth", all from 0.03. *No shots* and *M shots* are means over
the second half of the tasks, before the first label and at the last evaluation."""


def short_table() -> Table:
    """The one table of the target."""
    return TARGETS["short-tasks"].tables[0]


def list_short_differences(results: Results) -> list[Compared]:
    """All pairs of the three methods that have a seed in common, those that ask for the rule first."""
    return compare_methods(short_table(), results, [*PAIRS, ("learned-constant", "ftml")])


def rule_with_short_tasks(results: Results) -> Difference | None:
    """FTML-VS less one learned step size; None if it was not run."""
    found = compare_methods(short_table(), results, PAIRS[:1])
    return found[0].ours if found else None


def write_short_tasks(results: Results) -> list[str]:
    """The section, as Markdown; empty if none of it was run."""
    table, differences = short_table(), list_short_differences(results)
    if not differences:
        return []
    where = f"Not in the paper. Here: `python -m paper {table.name}`, preset `{table.preset}`."
    found = [_describe_mastered(table, results), table.note]
    parts = [f"## {HEADING}", where, TEXT, _describe_order(differences), *filter(None, found)]
    return [
        *parts,
        markdown(_value_rows(table, results)),
        markdown(difference_rows(differences)),
        count_clear(differences),
    ]


def _describe_order(differences: Sequence[Compared]) -> str:
    """What FTML-VS loses more or less than each of the others."""
    sentences = [
        f"`{method_of(each.pair.first)}` has a {'larger' if each.ours.mean > 0 else 'smaller'} cumulative loss than "
        f"`{method_of(each.pair.second)}`: {format_difference(each.ours, 1)}; {describe_certainty(each.ours)}."
        for each in differences[: len(PAIRS)]
    ]
    return " ".join(sentences)


def _describe_mastered(table: Table, results: Results) -> str:
    """What follows if no task was mastered; nothing if one was."""
    runs = [results.rows(table.preset, label) for label in table.paper]
    if any(rows["mastered"].max() > 0 for rows in runs if len(rows)):
        return ""
    labels = max(rows["labels"].max() for rows in runs if len(rows))
    return (
        f"No run mastered a task, so every run received all {labels:,.0f} labels: labels and tasks mastered compare "
        "nothing here, and whether the rule saves labels in such tasks is not answered. Only the loss differs."
    )


def _value_rows(table: Table, results: Results) -> list[list[str]]:
    head = ["method", "cumulative loss", "seeds", "labels", "tasks mastered"]
    rows = [[*head, *(f"{what}, {shots} shots" for shots in ("no", "M") for what in ("loss", "accuracy"))]]
    for label in table.paper:
        ours = results.rows(table.preset, label)
        if len(ours):
            counts = [describe_spread(ours["labels"], 0), describe_spread(ours["mastered"], 1)]
            cells = [describe_spread(ours[CUMULATIVE_LOSS], 1), str(len(ours)), *counts]
            rows.append([method_of(label), *cells, *_late_values(table, label, results)])
    return rows


def _late_values(table: Table, label: str, results: Results) -> list[str]:
    """Loss and accuracy in the second half of the tasks, with no shots and with the most; means over seeds."""
    runs = [run.outcome for run in results.of(table.preset, label) if isinstance(run.outcome, Online)]
    half = len(runs[0].tasks.name) // 2
    columns = [
        [run.loss_by_shots.late[0] for run in runs],
        [value for run in runs for value in run.tasks.zero_shot_accuracy[half:]],
        [run.loss_by_shots.late[-1] for run in runs],
        [value for run in runs for value in run.tasks.last_accuracy[half:]],
    ]
    known = [[value for value in column if value is not None] for column in columns]
    return [f"{fmean(column):.3f}" if column else "" for column in known]
