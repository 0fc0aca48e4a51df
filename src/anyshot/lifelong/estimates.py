"""How good a task's predictions are, without a test set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from anyshot.lifelong.across_tasks import AcrossTasks, Look, Measure, fit_across
from anyshot.lifelong.advice import Curve
from anyshot.lifelong.near_looks import Interval
from anyshot.lifelong.sequences import confidence_sequence


@dataclass(frozen=True, eq=False)
class Past:
    """What closed tasks showed.

    Attributes:
        across: estimates the accuracy of a new task; None while too few tasks are closed.
        curves: the learning curve of each closed task that has one.
        tasks: how many tasks are closed.
    """

    across: AcrossTasks | None
    curves: list[Curve]
    tasks: int

    @classmethod
    def of(cls, looks: Sequence[Sequence[Look]], measure: Measure) -> Past:
        """From the looks at each closed task."""
        curves = [Curve.of(one, measure) for one in looks]
        return cls(fit_across(looks, measure), [curve for curve in curves if curve is not None], len(looks))


@dataclass(frozen=True)
class Estimate:
    """The accuracy of a task (or its mean squared error), by two ways.

    `own` uses the task's own random labels alone. Each was predicted before it was learned from. The interval holds the
    mean accuracy of these predictions at all looks at once, and assumes nothing. It is wide.

    `past` uses what past tasks showed at the same number of labels, and what the accuracy then turned out to be. It is
    for the model as it is now. It assumes that tasks are drawn alike, and needs twenty closed tasks.

    Attributes:
        measure: "accuracy" or "error".
        level: of the intervals.
        labels: the number of random labels that `own` rests on.
        own: from the task's own labels.
        past: from past tasks; None while there are too few.
        past_tasks: how many tasks were closed.
    """

    measure: Measure
    level: float
    labels: int
    own: Interval
    past: Interval | None
    past_tasks: int

    @property
    def value(self) -> float:
        """The best guess."""
        return (self.past or self.own).value

    @property
    def low(self) -> float:
        """The lower end: from past tasks if there are enough, else from own labels."""
        return (self.past or self.own).low

    @property
    def high(self) -> float:
        """The upper end, likewise."""
        return (self.past or self.own).high

    def __str__(self) -> str:
        if self.past is None:
            return f"{self.measure} {self.own} at {self.level:.0%} from {self.labels} own labels"
        own = f"[{self.own.low:.2f}, {self.own.high:.2f}] from {self.labels} own labels"
        return f"{self.measure} {self.past} at {self.level:.0%} from {self.past_tasks} past tasks; {own}"


def estimate_own(table: pd.DataFrame, level: float, largest: float) -> tuple[Interval, int]:
    """The estimate from a task's own random labels, and their number.

    Args:
        table: of the labels, as `Task.table`.
        level: of the interval.
        largest: in a regression, the largest squared error; larger ones count as this.
    """
    chosen = table[table["random"]] if len(table) else table
    right = "error" not in table
    count, scale, total = len(chosen), 1.0 if right else largest, 0.0
    if count:
        total = float((chosen["right"] if right else chosen["error"].clip(0, largest) / largest).sum())
    low, high = confidence_sequence(total, count, level)
    value = total / count if count else (low + high) / 2
    return Interval(value * scale, low * scale, high * scale), count
