"""What a table of the paper, and a target of `anyshot reproduce`, is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from anyshot.runs.offline_presets import OFFLINE_PRESETS


class Number(NamedTuple):
    """Mean and standard deviation over three seeds, as the paper prints them."""

    mean: float
    deviation: float


@dataclass(frozen=True, eq=False)
class Table:
    """Methods in one setting, which are compared with each other.

    Attributes:
        preset: the setting.
        heading: what it is.
        where: it stands in the paper.
        paper: for each learner the paper's numbers: one cumulative loss online, one accuracy in percent for each number
            of shots offline; none where the paper prints none.
        better: pairs (better, worse) that the paper's words say where it prints no numbers.
        note: what a reader must know.
        constant: what to predict the middle of the labels always would cost; None where that is no question.
    """

    preset: str
    heading: str
    where: str
    paper: Mapping[str, tuple[Number, ...]]
    better: tuple[tuple[str, str], ...] = ()
    note: str = ""
    constant: float | None = None

    @property
    def offline(self) -> bool:
        """Whether it has accuracies on unseen tasks instead of cumulative losses."""
        return self.preset in OFFLINE_PRESETS

    @property
    def columns(self) -> tuple[str, ...]:
        """What there is a number of."""
        if not self.offline:
            return ("cumulative loss",)
        return tuple(f"{shots}-shot" for shots in OFFLINE_PRESETS[self.preset][0].plan.test_shots)


@dataclass(frozen=True)
class Target:
    """What `anyshot reproduce` takes.

    Attributes:
        told: a line about it.
        parts: its tables; if there are several, each is a target too, TARGET-PART.
    """

    told: str
    parts: Mapping[str, Table]

    @property
    def tables(self) -> tuple[Table, ...]:
        """Its tables."""
        return tuple(self.parts.values())
