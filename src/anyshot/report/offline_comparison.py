"""The numbers of offline runs: one row for each method, and its difference to a reference with the same seeds."""

from __future__ import annotations

from dataclasses import dataclass

from anyshot.report.offline_runs import OfflineGroup, OfflineRun
from anyshot.report.spread import Difference, Spread


@dataclass(frozen=True)
class OfflineRow:
    """One method.

    Attributes:
        learner: its name.
        seeds: of its runs.
        scores: accuracy (loss in a regression) for each number of shots, over seeds.
        errors: for each number of shots the standard error over test episodes, of the seed where it is largest.
        pairs: seeds that the reference has as well; empty for the reference itself.
        differences: to the reference, for each number of shots; empty without pairs.
    """

    learner: str
    seeds: tuple[int, ...]
    scores: tuple[Spread, ...]
    errors: tuple[float, ...]
    pairs: tuple[int, ...]
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class OfflineComparison:
    """All methods of a group.

    Attributes:
        group: the runs.
        against: the reference.
        rows: one for each method.
    """

    group: OfflineGroup
    against: str
    rows: tuple[OfflineRow, ...]

    def row(self, learner: str) -> OfflineRow:
        """That of one method."""
        return next(row for row in self.rows if row.learner == learner)


def compare_offline(group: OfflineGroup, wanted: str | None = None) -> OfflineComparison:
    """Compare the methods of a group to `wanted` if it is there, else to maml, else to the first."""
    against = next((name for name in (wanted, "maml") if name in group.learners), group.learners[0])
    return OfflineComparison(group, against, tuple(_row(group, learner, against) for learner in group.learners))


def scores(run: OfflineRun) -> list[float]:
    """Test accuracy, or loss in a regression, for each number of shots."""
    return [float(line[run.measure]) for line in run.tests]


def standard_errors(run: OfflineRun) -> list[float]:
    """Those of `scores`, over test episodes."""
    return [float(line[f"{run.measure}_error"]) for line in run.tests]


def _row(group: OfflineGroup, learner: str, against: str) -> OfflineRow:
    ours, theirs = group.of(learner), group.of(against)
    both = [seed for seed in ours if seed in theirs] if learner != against else []
    found = {seed: scores(run) for seed, run in ours.items()}
    less = [[a - b for a, b in zip(found[seed], scores(theirs[seed]), strict=True)] for seed in both]
    return OfflineRow(
        learner,
        tuple(ours),
        tuple(Spread.of(values) for values in zip(*found.values(), strict=True)),
        tuple(max(values) for values in zip(*map(standard_errors, ours.values()), strict=True)),
        tuple(both),
        tuple(Difference.of(values) for values in zip(*less, strict=True)),
    )
