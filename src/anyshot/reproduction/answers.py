"""The answers a reader looks for first, computed from the numbers."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean

from anyshot.report.formats import difference
from anyshot.report.spread import Difference
from anyshot.report.wording import listed
from anyshot.reproduction.ordering import LEVEL, Pair, holm, pair
from anyshot.reproduction.results import Results
from anyshot.reproduction.sections import ratio, runs_of
from anyshot.reproduction.table import Table
from anyshot.reproduction.targets import TARGETS, every_table

QUESTIONS = (
    ("ftml-vs", "ftml", "Does FTML-VS beat FTML?"),
    ("ftml-vs", "toe", "Does FTML-VS beat TOE?"),
    ("ftml-vs", "a-gem", "Does FTML-VS beat A-GEM?"),
    ("ftml-vs", "protonet", "Does FTML-VS beat incremental ProtoNet?"),
    ("ftml-vs", "ftml+meta-sgd", "Does FTML-VS beat FTML + Meta-SGD?"),
    ("ftml-vs", "ftml-vl", "Does FTML-VS beat FTML-VL?"),
    ("ftml-vs+meta-sgd", "ftml-vs", "Does Meta-SGD help FTML-VS (not in the paper)?"),
    ("ftml-vs-closed-form", "ftml-vs", "Is FTML-VS better with eta from theorem 1 than learned (not in the paper)?"),
    ("maml-vs", "maml", "Offline, does MAML-VS beat MAML?"),
    ("maml-vs", "maml-vl", "Offline, does MAML-VS beat MAML-VL?"),
    ("maml-vs", "mann", "Offline, does MAML-VS beat MANN?"),
)


def answers(results: Results) -> list[str]:
    """Does the one beat the other here, by how much, how sure are we: lines of a list."""
    lines = []
    for first, second, question in QUESTIONS:
        lines += [f"- **{question}**", *(f"  - {line}" for line in _answers(first, second, results))]
    return [
        *lines,
        "- **Does the loss fall as M, the most shots, rises?**",
        *(f"  - {line}" for line in _over_m(results)),
        "- **Which of these online answers stand if they are taken together?**",
        f"  - {_together(results)}",
    ]


def _tables(first: str, second: str) -> list[Table]:
    """The first one of every setting that has both; others have the same runs."""
    found: dict[str, Table] = {}
    for table in every_table().values():
        if {first, second} <= set(table.paper):
            found.setdefault(table.preset, table)
    return list(found.values())


def _answers(first: str, second: str, results: Results) -> list[str]:
    lines, left = [], []
    for table in _tables(first, second):
        found = [pair(table, results, first, second, column, ordered=True) for column in range(len(table.columns))]
        if found[0].ours is None:
            left.append(f"`{table.preset}`")
        elif table.offline:
            told = (
                f"{what} {_word(one)} ({difference(one.ours, 2)})"
                for what, one in zip(table.columns, found, strict=True)
            )
            lines.append(f"`{table.preset}`: {'; '.join(told)}; differences in points of accuracy.")
        else:
            lines.append(f"`{table.preset}`: {_online(found[0], table, results)}")
    return [*lines, f"Not run: {'; '.join(left)}."] if left else lines


def _word(one: Pair) -> str:
    if one.seeds == 1:
        return "one seed cannot say; it is better there" if one.first_is_better else "one seed cannot say; it is worse"
    if one.sure:
        return "yes" if one.first_is_better else "no, it is worse"
    return f"it looks {'better' if one.first_is_better else 'worse'}, but that may be chance"


def _online(one: Pair, table: Table, results: Results) -> str:
    share = f"{100 * abs(one.share):.1f} % {'less' if one.share < 0 else 'more'} cumulative loss"
    told = f"{_word(one)}. {share}, {difference(one.ours, 1)}, better on {one.wins} of {one.seeds} seeds"
    if one.paper is not None:
        theirs = one.paper / table.paper[one.second][0].mean
        within = ", which is within its own spread" * one.within
        told += f" (the paper: {100 * abs(theirs):.1f} % {'less' if theirs < 0 else 'more'}{within})"
    elif (one.first, one.second) in table.better or (one.second, one.first) in table.better:
        told += f" (the paper: {'better' if (one.first, one.second) in table.better else 'worse'})"
    best = min(_mean_loss(table, learner, results) for learner in (one.first, one.second))
    if table.constant is not None and best > table.constant:
        told += f". Both do worse than to predict always the same, which costs {table.constant:,.1f}"
    return f"{told}. Labels: {_labels(one, table, results)}."


def _mean_loss(table: Table, learner: str, results: Results) -> float:
    return fmean(run.values[0] for run in runs_of(table, learner, results))


def _labels(one: Pair, table: Table, results: Results) -> str:
    ours, theirs = results.of(table.preset, one.first), results.of(table.preset, one.second)
    both = [seed for seed in ours if seed in theirs]
    less = Difference.of([float((ours[seed].labels or 0) - (theirs[seed].labels or 0)) for seed in both])
    if not less.mean and not less.excludes_zero:
        return "the same number"
    return f"{difference(less, 0)}, " + ("which is sure" if less.excludes_zero else "which may be chance")


def _over_m(results: Results) -> list[str]:
    """The ablation: every method's means, and how far FTML-VS is ahead, beside the paper's."""
    tables = TARGETS["ablation-m"].parts
    if any(not runs_of(table, learner, results) for table in tables.values() for learner in table.paper):
        return ["Not all of it was run."]
    lines = []
    for learner in next(iter(tables.values())).paper:
        means = [_mean_loss(one, learner, results) for one in tables.values()]
        falls = "the means fall" if means == sorted(means, reverse=True) else "the means do not always fall"
        paper = listed(f"{one.paper[learner][0].mean:,.1f}" for one in tables.values())
        ours = listed(f"{mean:,.1f}" for mean in means)
        steps = [
            f"from {fewer} to {more} by {difference(_from_to(tables[fewer], tables[more], learner, results), 1)}"
            for fewer, more in pairwise(tables)
        ]
        lines.append(f"{learner}, M = {listed(tables)}: {falls}: {ours} (the paper: {paper}); {', '.join(steps)}.")
    gaps = [pair(table, results, "ftml-vs", "ftml", 0, ordered=True) for table in tables.values()]
    ahead = "; ".join(
        f"M = {m} {difference(gap.ours, 1)} (the paper: {gap.paper:+,.1f})" for m, gap in zip(tables, gaps, strict=True)
    )
    return [*lines, f"FTML-VS less FTML: {ahead}."]


def _from_to(one: Table, other: Table, learner: str, results: Results) -> Difference:
    """The other setting less the one, on the seeds that both have: the streams are the same."""
    before, after = results.of(one.preset, learner), results.of(other.preset, learner)
    return Difference.of([after[seed].values[0] - before[seed].values[0] for seed in before if seed in after])


def _together(results: Results) -> str:
    """What Holm's correction for so many questions leaves of the answers."""
    asked = [
        (pair(table, results, first, second, 0, ordered=True), table.preset)
        for first, second, _ in QUESTIONS
        for table in _tables(first, second)
        if not table.offline
    ]
    asked = [(one, preset) for one, preset in asked if one.seeds > 1]
    asked.sort(key=lambda each: each[0].p_value)
    stay = asked[: holm([one.p_value for one, _ in asked])]
    told = ": " + listed(f"{one.first} against {one.second} (`{preset}`)" for one, preset in stay) if stay else ""
    return (
        f"Of {len(asked)} with two seeds or more, {sum(one.sure for one, _ in asked)} exclude zero each by its own "
        f"interval, and {len(stay)} when corrected for their number (Holm, {100 * LEVEL:.0f} %){told}. "
        "The offline answers are not in this count."
    )


def far_off(results: Results) -> list[list[str]]:
    """Every number that we and the paper have, those that differ most first."""
    found: dict[tuple[str, ...], tuple[float, list[str]]] = {}
    for table in every_table().values():
        for learner, numbers in table.paper.items():
            runs = runs_of(table, learner, results)
            for column, what in enumerate(table.columns):
                value = ratio(runs, numbers, column)
                if value is not None:
                    off = sum(run.values[column] for run in runs) / len(runs) - numbers[column].mean
                    cells = [table.preset, learner, what, f"{value:.2f}", f"{off / numbers[column].deviation:+.1f}"]
                    found.setdefault((table.preset, learner, what), (-max(value, 1 / value), cells))
    head = ["setting", "method", "what", "ours / paper", "difference in the paper's standard deviations"]
    return [head, *(cells for _, cells in sorted(found.values(), key=lambda one: one[0]))]
