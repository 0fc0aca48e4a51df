"""The paper's tables as data: `targets.toml`, read and checked."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from anyshot.errors import InputError
from anyshot.offline.protocol import OfflineProtocol
from anyshot.runs.presets import preset

FOLDER = Path(__file__).parent
CUMULATIVE_LOSS = "cumulative loss"
TUNING_SEED = 10  # seeds from here on are for choosing settings


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Number(NamedTuple):
    """Mean and standard deviation over three seeds, as the paper prints them."""

    mean: float
    deviation: float


class Spec(_Data):
    """A learner, and the settings of the preset that are changed for it, by dotted names."""

    learner: str
    settings: Mapping[str, bool | int | float | str] = {}


class Label(Spec):
    """A method that is not simply a learner with the preset's settings.

    Attributes:
        method: what tables call it.
        also: other runs that count as the same method.
    """

    method: str
    also: Sequence[Spec] = ()


class Table(_Data):
    """Methods in one setting, which are compared with each other. `targets.toml` explains the fields."""

    name: str = ""
    preset: str
    heading: str
    where: str
    paper: Mapping[str, Sequence[Number]]
    better: Sequence[tuple[str, str]] = ()
    note: str = ""
    constant: float | None = None
    seeds: int = 3
    first_seed: int = 0
    against: str = ""
    first_step: float | None = None

    @property
    def tuning(self) -> bool:
        """Whether its runs are for choosing settings; their seeds count nowhere else."""
        return self.first_seed >= TUNING_SEED

    @property
    def offline(self) -> bool:
        """Whether it has accuracies on unseen tasks instead of cumulative losses."""
        return isinstance(preset(self.preset).protocol, OfflineProtocol)

    @property
    def columns(self) -> list[str]:
        """What there is a number of.

        >>> find_tables("omniglot")[0].columns
        ['1-shot', '2-shot', '5-shot']
        """
        protocol = preset(self.preset).protocol
        if isinstance(protocol, OfflineProtocol):
            return [f"{shots}-shot" for shots in protocol.test_shots]
        return [CUMULATIVE_LOSS]

    @property
    def numbered(self) -> list[str]:
        """The methods that the paper has numbers of.

        >>> find_tables("omniglot")[0].numbered
        ['maml', 'maml-vl', 'maml-vs']
        """
        return [label for label, numbers in self.paper.items() if numbers]

    @property
    def sign(self) -> int:
        """1 if more is better, -1 if less is."""
        return 1 if self.offline else -1


class Target(_Data):
    """One or more tables that are run together."""

    name: str
    summary: str
    tables: Sequence[Table]


class _Paper(_Data):
    minutes: Mapping[str, float]
    claims: Sequence[tuple[str, str]]
    labels: Mapping[str, Label]
    targets: Sequence[Target]


def _read() -> _Paper:
    """`targets.toml`; each table gets its whole name."""
    content: dict[str, Any] = tomllib.loads((FOLDER / "targets.toml").read_text("utf-8"))
    for target in content["targets"]:
        for table in target["tables"]:
            table["name"] = "-".join(filter(None, [target["name"], table.get("name")]))
    return _Paper.model_validate(content)


_PAPER = _read()
MINUTES, CLAIMS, LABELS = _PAPER.minutes, _PAPER.claims, _PAPER.labels
TARGETS = {target.name: target for target in _PAPER.targets}
TABLES = {table.name: table for target in _PAPER.targets for table in target.tables}


def describe_targets() -> dict[str, str]:
    """A line about every target, tables of targets included.

    >>> describe_targets()["ablation-m-10"]
    'Rainbow MNIST with M = 10'
    """
    found = {}
    for name, target in TARGETS.items():
        found[name] = target.summary
        found |= {table.name: table.heading for table in target.tables if table.name != name}
    return found


def find_tables(name: str) -> Sequence[Table]:
    """The tables of a target.

    >>> [table.preset for table in find_tables("ablation-m")]
    ['rainbow-mnist-m10', 'rainbow-mnist', 'rainbow-mnist-m30']
    """
    if name in TARGETS:
        return TARGETS[name].tables
    if name in TABLES:
        return (TABLES[name],)
    raise InputError(f"there is no target {name!r}; there are {', '.join(describe_targets())}")


def specs_of(label: str) -> list[Spec]:
    """The runs that count as a method; the first is the one to run.

    >>> [spec.learner for spec in specs_of("learned-constant")], [spec.learner for spec in specs_of("toe")]
    (['ftml-learned-constant', 'ftml-vs'], ['toe'])
    """
    found = LABELS.get(label)
    return [found, *found.also] if found else [Spec(learner=label)]


def method_of(label: str) -> str:
    """What tables call a method."""
    return LABELS[label].method if label in LABELS else label
