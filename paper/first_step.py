"""What the rule is worth: cumulative loss against the first inner step, for FTML, FTML-VS and one learned step size."""

from __future__ import annotations

from collections.abc import Sequence

from anyshot.report.statistics import Difference, holm
from paper.pairs import Pair, compare
from paper.results import Results
from paper.sections import describe_spread
from paper.targets import CUMULATIVE_LOSS, TARGETS, Table, method_of
from paper.text import describe_certainty, format_difference, markdown

HEADING = "What the rule is worth"
CHOSEN = 0.03  # the first step of the comparison that was decided on before the runs
TEXT = """FTML has the fixed step size 0.1 in the paper. FTML-VS begins there and learns a smaller one, so its lead may
come from the rule (a step size that rises with the number of shots) or from the smaller step. Three methods from four
first steps tell the two apart: `ftml` keeps the first step, `learned-constant` learns one step size for all numbers of
shots (FTML-VS with eta = 1e6, whose rule is constant, counts as it), `ftml-vs` learns the rule. The comparison decided
on before the runs is `ftml-vs` less `learned-constant`, both from 0.03, over seeds 0 to 7. The last column corrects the
p values for all differences in the table (Holm)."""


def tables() -> list[Table]:
    """A table for each first step."""
    return [*TARGETS["first-step"].tables]


def list_differences(results: Results) -> list[tuple[Table, Pair]]:
    """FTML-VS less the learned constant, and less FTML, from each first step; those that have a seed in common."""
    found = []
    for table in tables():
        labels = {method_of(label): label for label in table.paper}
        for second in ("learned-constant", "ftml"):
            pair = compare(table, results, labels["ftml-vs"], labels[second], CUMULATIVE_LOSS)
            if pair.ours is not None:
                found.append((table, pair))
    return found


def chosen_difference(results: Results) -> Difference | None:
    """The comparison that was decided on before the runs; None if it was not run."""
    for table, pair in list_differences(results):
        if table.first_step == CHOSEN and method_of(pair.second) == "learned-constant":
            return pair.ours
    return None


def write_first_step(results: Results, pictures: Sequence[str]) -> list[str]:
    """The section, as Markdown; empty if none of it was run."""
    differences = list_differences(results)
    if not differences:
        return []
    chosen = chosen_difference(results)
    answer = f"Answer: {format_difference(chosen, 1)}; {describe_certainty(chosen)}." if chosen else "Not run yet."
    parts = [f"## {HEADING}", f"Not in the paper. Here: `python -m paper first-step`, preset `{tables()[0].preset}`."]
    return [*parts, TEXT, answer, *pictures, markdown(_value_rows(results)), markdown(_difference_rows(differences))]


def _value_rows(results: Results) -> list[list[str]]:
    rows = [["first step", "method", "cumulative loss", "seeds", "labels", "tasks mastered"]]
    for table in tables():
        for label in table.paper:
            ours = results.rows(table.preset, label)
            if len(ours):
                loss, counts = describe_spread(ours[CUMULATIVE_LOSS], 1), describe_spread(ours["labels"], 0)
                cells = [loss, str(len(ours)), counts, describe_spread(ours["mastered"], 1)]
                rows.append([f"{table.first_step:g}", method_of(label), *cells])
    return rows


def _difference_rows(differences: list[tuple[Table, Pair]]) -> list[list[str]]:
    rows = [["first step", "difference", "cumulative loss, paired", "labels, paired", "n", "p", "p, Holm"]]
    tested = [pair.ours.p for _, pair in differences if pair.ours and pair.ours.p is not None]
    adjusted = iter(holm(tested))
    for table, pair in differences:
        if pair.ours is None or pair.labels is None:
            continue
        p = ["", ""] if pair.ours.p is None else [f"{pair.ours.p:.3f}", f"{next(adjusted):.3f}"]
        names = f"{method_of(pair.first)} less {method_of(pair.second)}"
        values = [format_difference(pair.ours, 1), format_difference(pair.labels, 0), str(pair.ours.n)]
        rows.append([f"{table.first_step:g}", names, *values, *p])
    return rows
