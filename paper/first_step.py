"""What the rule is worth: cumulative loss against the first inner step, for FTML, FTML-VS and one learned step size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyshot.report.statistics import Difference, holm
from paper.claims import LEVEL
from paper.pairs import Pair, compare
from paper.pooled import pooled_difference
from paper.results import Results
from paper.sections import describe_spread
from paper.targets import CUMULATIVE_LOSS, TARGETS, Table, method_of
from paper.text import describe_certainty, format_difference, format_p, join_words, markdown

HEADING = "What the rule is worth"
CHOSEN = 0.03  # the first step of the comparison that was decided on before the runs
PAIRS = (("ftml-vs", "learned-constant"), ("ftml-vs", "ftml"))
TEXT = """FTML has the fixed step size 0.1 in the paper. FTML-VS begins there and learns a smaller one, so its lead may
come from the rule (a step size that rises with the number of shots) or from the smaller step. Three methods from four
first steps tell the two apart: `ftml` keeps the first step, `learned-constant` learns one step size for all numbers of
shots (FTML-VS with eta = 1e6, whose rule is constant, counts as it), `ftml-vs` learns the rule. The comparison decided
on before the runs is `ftml-vs` less `learned-constant`, both from 0.03, over seeds 0 to 7."""
COLUMNS = """*Pooled* is the same difference with an error estimated from the three methods together (a loss is the
method's effect, plus the seed's, plus a residual that is taken to scatter alike for all three), which has twice the
degrees of freedom of a pair alone. Intervals are not corrected for their number; *Holm* has the p values corrected for
all differences in the table."""


@dataclass(frozen=True)
class Compared:
    """Two methods from the same first step, by their cumulative loss.

    Attributes:
        table: where they are.
        pair: the two of them.
        ours: the first less the second, seed by seed.
        pooled: the same with the error of all methods of the table; None if that cannot be had.
    """

    table: Table
    pair: Pair
    ours: Difference
    pooled: Difference | None


def tables() -> list[Table]:
    """A table for each first step."""
    return [*TARGETS["first-step"].tables]


def compare_methods(table: Table, results: Results, pairs: Sequence[tuple[str, str]]) -> list[Compared]:
    """Pairs of methods of a table, those that have a seed in common."""
    labels, found = {method_of(label): label for label in table.paper}, []
    for first, second in pairs:
        pair = compare(table, results, labels[first], labels[second], CUMULATIVE_LOSS)
        if pair.ours is not None:
            pooled = pooled_difference(table, results, pair.first, pair.second)
            found.append(Compared(table, pair, pair.ours, pooled))
    return found


def list_differences(results: Results) -> list[Compared]:
    """FTML-VS less the learned constant, and less FTML, from each first step; those that have a seed in common."""
    return [each for table in tables() for each in compare_methods(table, results, PAIRS)]


def chosen_difference(results: Results) -> Difference | None:
    """The comparison that was decided on before the runs; None if it was not run."""
    for each in list_differences(results):
        if each.table.first_step == CHOSEN and method_of(each.pair.second) == "learned-constant":
            return each.ours
    return None


def write_first_step(results: Results, pictures: Sequence[str]) -> list[str]:
    """The section, as Markdown; empty if none of it was run."""
    differences = list_differences(results)
    if not differences:
        return []
    chosen = chosen_difference(results)
    answer = f"Answer: {format_difference(chosen, 1)}; {describe_certainty(chosen)}." if chosen else "Not run yet."
    parts = [f"## {HEADING}", f"Not in the paper. Here: `python -m paper first-step`, preset `{tables()[0].preset}`."]
    parts += [TEXT, f"{answer} {_describe_ranges(results)}", *pictures, markdown(_value_rows(results))]
    return [*parts, COLUMNS, markdown(difference_rows(differences)), count_clear(differences)]


def _describe_ranges(results: Results) -> str:
    """How far the mean of each method moves with the first step."""
    means: dict[str, list[float]] = {}
    for table in tables():
        for label in table.paper:
            losses = results.rows(table.preset, label)[CUMULATIVE_LOSS]
            if len(losses):
                means.setdefault(method_of(label), []).append(float(losses.mean()))
    ranges = [f"`{method}` {min(each):,.0f} to {max(each):,.0f}" for method, each in means.items()]
    return f"Over the first steps that were run, the mean cumulative loss is: {join_words(ranges)}."


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


def difference_rows(differences: Sequence[Compared]) -> list[list[str]]:
    """A row for each difference, with p values that are corrected for all of them."""
    head = ["first step", "difference", "n", "labels, paired", "cumulative loss, paired", "p", "p, Holm"]
    rows = [[*head, "cumulative loss, pooled", "p, pooled", "p, pooled, Holm"]]
    paired, pooled = _adjust([each.ours for each in differences]), _adjust([each.pooled for each in differences])
    for each, alone, together in zip(differences, paired, pooled, strict=True):
        names = f"{method_of(each.pair.first)} less {method_of(each.pair.second)}"
        labels = format_difference(each.pair.labels, 0) if each.pair.labels else ""
        ours = [format_difference(each.ours, 1), *map(format_p, alone)]
        wider = [format_difference(each.pooled, 1) if each.pooled else "", *map(format_p, together)]
        rows.append([f"{each.table.first_step:g}", names, str(each.ours.n), labels, *ours, *wider])
    return rows


def count_clear(differences: Sequence[Compared]) -> str:
    """How many differences remain after the correction."""
    paired, pooled = _adjust([each.ours for each in differences]), _adjust([each.pooled for each in differences])
    left = [sum(p is not None and p < LEVEL for _, p in ps) for ps in (paired, pooled)]
    return (
        f"Of {len(differences)} differences, {sum(each.ours.excludes_zero for each in differences)} have a paired 95 % "
        f"interval that excludes 0. After Holm's correction (level {100 * LEVEL:.0f} %) {left[0]} of the paired "
        f"tests and {left[1]} of the pooled ones remain."
    )


def _adjust(found: Sequence[Difference | None]) -> list[tuple[float | None, float | None]]:
    """The p value of each difference, and the one corrected for all (Holm); None where there is none."""
    adjusted = iter(holm([each.p for each in found if each and each.p is not None]))
    return [(each.p, next(adjusted)) if each and each.p is not None else (None, None) for each in found]
