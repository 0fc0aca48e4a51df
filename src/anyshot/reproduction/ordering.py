"""Whether methods come out in the paper's order, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, takewhile

from scipy.special import stdtr, stdtrit  # type: ignore[import-untyped]

from anyshot.report.spread import Difference
from anyshot.reproduction.results import Results
from anyshot.reproduction.table import Number, Table

LEVEL = 0.05


@dataclass(frozen=True)
class Pair:
    """Two methods by one number.

    Attributes:
        first: the better one in the paper, if it has an order.
        second: the other.
        ordered: whether the paper has one.
        paper: the first less the second in the paper; None without numbers.
        within: whether that is no more than the larger of the paper's two deviations.
        sign: -1 if less is better, 1 if more is.
        ours: first less second, seed by seed; None if no seed has both.
        wins: seeds on which the first is better, of
        seeds: that have both.
        share: ours as a share of the second's mean over those seeds.
    """

    first: str
    second: str
    ordered: bool
    paper: float | None
    within: bool
    sign: int
    ours: Difference | None
    wins: int
    seeds: int
    share: float

    @property
    def agrees(self) -> bool | None:
        """Whether our means are in the paper's order; None if one of the two has none."""
        return None if self.ours is None or not self.ordered else self.first_is_better

    @property
    def first_is_better(self) -> bool:
        """By our mean difference."""
        return self.ours is not None and self.ours.mean * self.sign > 0

    @property
    def sure(self) -> bool:
        """Whether the 95 % interval excludes zero."""
        return self.ours is not None and self.ours.excludes_zero

    @property
    def p_value(self) -> float:
        """Of Student's paired t, two-sided; 1 with fewer than two seeds.

        >>> one = Pair("a", "b", True, -5.0, False, -1, Difference.of([-3.0, -1.0, -2.0]), 3, 3, -0.1)
        >>> print(f"{one.p_value:.4f}")
        0.0742
        """
        if self.ours is None or self.ours.low is None or self.ours.high is None:
            return 1.0
        half = (self.ours.high - self.ours.low) / 2
        if not half:
            return 0.0 if self.ours.mean else 1.0
        t = abs(self.ours.mean) / half * stdtrit(self.seeds - 1, 0.975)
        return float(2 * stdtr(self.seeds - 1, -t))

    @property
    def told(self) -> str:
        """The verdict, in words.

        >>> Pair("a", "b", True, -5.0, False, -1, Difference.of([-3.0, -1.0]), 2, 2, -0.1).told
        'as in the paper, but may be chance'
        """
        if self.ours is None:
            return "not run"
        if self.seeds == 1:
            sure = ", on one seed, which proves nothing"
        else:
            sure = ", and sure" if self.sure else ", but may be chance"
        if self.agrees is None:
            return f"{self.first if self.first_is_better else self.second} is better{sure}"
        return ("as in the paper" if self.agrees else "the other way round") + sure


def pairs(table: Table, results: Results, column: int) -> list[Pair]:
    """All pairs of methods that the paper has numbers of; else those it speaks of; else all others against FTML-VS."""
    if all(table.paper.values()):
        wanted = [_in_order(table, one, other, column) for one, other in combinations(table.paper, 2)]
    elif table.better:
        wanted = [(*both, True) for both in table.better]
    else:
        wanted = [(learner, "ftml-vs", False) for learner in table.paper if learner != "ftml-vs"]
    return [pair(table, results, first, second, column, ordered) for first, second, ordered in wanted]


def pair(table: Table, results: Results, first: str, second: str, column: int, ordered: bool) -> Pair:
    """Two methods of a table by one of its numbers."""
    sign = 1 if table.offline else -1
    runs = [results.of(table.preset, learner) for learner in (first, second)]
    both = [seed for seed in runs[0] if seed in runs[1]]
    ours, theirs = ([side[seed].values[column] for seed in both] for side in runs)
    less = [one - other for one, other in zip(ours, theirs, strict=True)]
    numbers = _numbers(table, first, second, column)
    gap = numbers[0].mean - numbers[1].mean if len(numbers) == 2 else None
    return Pair(
        first,
        second,
        ordered,
        gap,
        gap is not None and abs(gap) <= max(number.deviation for number in numbers),
        sign,
        Difference.of(less) if both else None,
        sum(value * sign > 0 for value in less),
        len(both),
        sum(less) / sum(theirs) if both else 0.0,
    )


def _in_order(table: Table, one: str, other: str, column: int) -> tuple[str, str, bool]:
    """The two, the better one in the paper first, and whether there is a better one."""
    a, b = (table.paper[learner][column].mean for learner in (one, other))
    swapped = (b > a) if table.offline else (b < a)
    return (other, one, True) if swapped else (one, other, a != b)


def _numbers(table: Table, first: str, second: str, column: int) -> list[Number]:
    """The paper's, or none."""
    return [one[column] for one in (table.paper[first], table.paper[second]) if one]


def counted_agreement(found: Sequence[Pair]) -> tuple[int, int, int, int]:
    """Pairs in the paper's order, of these sure ones; pairs the other way round, of these sure ones."""
    same = [one for one in found if one.agrees is True]
    other = [one for one in found if one.agrees is False]
    return len(same), sum(one.sure for one in same), len(other), sum(one.sure for one in other)


def holm(p_values: Sequence[float]) -> int:
    """How many of these, which rise, are below `LEVEL` when corrected for their number (Holm 1979).

    >>> holm([0.01, 0.02, 0.03]), holm([0.01, 0.04, 0.045]), holm([0.02, 0.02, 0.02])
    (3, 1, 0)
    """
    corrected = (p * (len(p_values) - rank) for rank, p in enumerate(p_values))
    return sum(1 for _ in takewhile(lambda p: p < LEVEL, corrected))
