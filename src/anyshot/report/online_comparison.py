"""The numbers of online runs: one row for each method, with its difference to a reference on the same streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anyshot.report.online_runs import Group, Run
from anyshot.report.spread import Difference, Spread


@dataclass(frozen=True)
class Row:
    """One method.

    Attributes:
        learner: its name.
        seeds: of its runs.
        loss: cumulative, the paper's regret.
        labels: received in all.
        mastered: tasks.
        zero_shot: accuracy (loss in a regression) on arrival of a task, over the last quarter of the tasks.
        pairs: seeds that the reference has as well; empty for the reference itself.
        loss_difference: to the reference; None without pairs.
        labels_difference: to the reference.
    """

    learner: str
    seeds: tuple[int, ...]
    loss: Spread
    labels: Spread
    mastered: Spread
    zero_shot: Spread
    pairs: tuple[int, ...]
    loss_difference: Difference | None
    labels_difference: Difference | None


@dataclass(frozen=True)
class Comparison:
    """All methods of a group.

    Attributes:
        group: the runs.
        against: the reference.
        rows: one for each method.
    """

    group: Group
    against: str
    rows: tuple[Row, ...]

    @property
    def measure(self) -> str:
        """What `zero_shot` is of."""
        return "accuracy" if self.group.classification else "loss"

    def row(self, learner: str) -> Row:
        """That of one method."""
        return next(row for row in self.rows if row.learner == learner)


def compare_online(group: Group, wanted: str | None = None) -> Comparison:
    """Compare the methods of a group to `wanted` if it is there, else to toe, else to the first."""
    against = next((name for name in (wanted, "toe") if name in group.learners), group.learners[0])
    return Comparison(group, against, tuple(_row(group, learner, against) for learner in group.learners))


def _row(group: Group, learner: str, against: str) -> Row:
    runs = group.of(learner)

    def over_seeds(value: Callable[[Run], float]) -> Spread:
        return Spread.of([value(run) for run in runs.values()])

    both = shared(group, learner, against) if learner != against else []
    return Row(
        learner,
        tuple(runs),
        over_seeds(cumulative_loss),
        over_seeds(labels),
        over_seeds(lambda run: float(run.ledger.mastered)),
        over_seeds(lambda run: zero_shot(run, group.classification)),
        tuple(both),
        difference(group, learner, against, cumulative_loss) if both else None,
        difference(group, learner, against, labels) if both else None,
    )


def shared(group: Group, learner: str, against: str) -> list[int]:
    """The seeds that both have."""
    return [seed for seed in group.of(learner) if seed in group.of(against)]


def difference(group: Group, learner: str, against: str, value: Callable[[Run], float]) -> Difference:
    """Of a learner's value to another's, over the seeds that both have."""
    ours, theirs = group.of(learner), group.of(against)
    return Difference.of([value(ours[seed]) - value(theirs[seed]) for seed in shared(group, learner, against)])


def cumulative_loss(run: Run) -> float:
    """The paper's regret."""
    return run.ledger.cumulative_loss


def labels(run: Run) -> float:
    """In all."""
    return float(run.ledger.labels)


def last_quarter(tasks: int) -> int:
    """How many tasks that is.

    >>> last_quarter(56), last_quarter(5), last_quarter(1)
    (14, 2, 1)
    """
    return -(-tasks // 4)


def zero_shot(run: Run, classification: bool) -> float:
    """Mean accuracy (or loss) on arrival over the last quarter of the tasks."""
    name = "zero_shot_accuracy" if classification else "zero_shot_loss"
    tasks = run.ledger.tasks
    return float(np.mean([getattr(task, name) for task in tasks[-last_quarter(len(tasks)) :]]))
