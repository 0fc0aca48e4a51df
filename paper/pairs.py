"""Two methods compared on the same seeds, beside the paper's order of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, combinations

import pandas as pd

from anyshot.report.statistics import Difference
from paper.results import Results
from paper.targets import Table, method_of


@dataclass(frozen=True)
class Pair:
    """Two methods by one number.

    Attributes:
        first: the label of one method.
        second: the label of the other.
        paper: the first less the second in the paper; None without numbers.
        within: whether that is no more than the larger of the paper's two deviations.
        claimed: the sign of the paper's difference, from its numbers or its words; 0 if it does not order the two.
        ours: the first less the second, seed by seed; None if no seed has both.
        wins: number of seeds on which the first is better.
        share: our difference as a share of the second's mean.
        labels: the same difference in labels; None offline.
    """

    first: str
    second: str
    paper: float | None
    within: bool
    claimed: float
    ours: Difference | None
    wins: int
    share: float
    labels: Difference | None


def list_pairs(table: Table, results: Results, column: str) -> list[Pair]:
    """All pairs of methods that the paper has numbers of; without any, those that it orders in words.

    In each the method that is better in the paper comes first. Then every other method against the table's `against`,
    or FTML-VS.
    """
    reference = table.against or next((label for label in table.paper if method_of(label) == "ftml-vs"), "")
    wanted = [*combinations(table.numbered, 2)] or [*table.better]
    compared = {reference, *chain(*wanted)}
    wanted += [(label, reference) for label in table.paper if reference and label not in compared]
    pairs = [compare(table, results, *both, column) for both in wanted]
    worse = [pair.claimed * table.sign < 0 for pair in pairs]
    return [
        compare(table, results, pair.second, pair.first, column) if swap else pair
        for pair, swap in zip(pairs, worse, strict=True)
    ]


def compare(table: Table, results: Results, first: str, second: str, column: str) -> Pair:
    """Two methods of a table by one of its numbers."""
    numbers = [table.paper[label][table.columns.index(column)] for label in (first, second) if table.paper[label]]
    gap = numbers[0].mean - numbers[1].mean if len(numbers) == 2 else None
    said = ((first, second) in table.better) - ((second, first) in table.better)
    ours, theirs = (results.rows(table.preset, label, table.tuning) for label in (first, second))
    less = (ours[column] - theirs[column]).dropna()
    return Pair(
        first,
        second,
        gap,
        gap is not None and abs(gap) <= max(number.deviation for number in numbers),
        table.sign * said if gap is None else gap,
        summarise_difference(less),
        int((less * table.sign > 0).sum()),
        float(less.sum() / theirs[column].loc[less.index].sum()) if len(less) else 0.0,
        summarise_difference((ours["labels"] - theirs["labels"]).dropna()),
    )


def summarise_difference(less: pd.Series[float]) -> Difference | None:
    """Mean and interval of paired differences; None without any."""
    return Difference.of(less.tolist()) if len(less) else None


def describe_verdict(ours: Difference, claimed: float) -> str:
    """Whether we agree with the paper, as far as the interval allows to say so.

    >>> describe_verdict(Difference(-2.0, -4.5, 0.5, 0.1, 3), claimed=-1.0)
    'undecided, same order'
    """
    if not claimed:
        return "no claim"
    same = ours.mean * claimed > 0
    if ours.excludes_zero:
        return "agree" if same else "differ"
    return f"undecided, {'same' if same else 'reverse'} order"
