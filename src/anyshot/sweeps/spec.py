"""What a sweep is to run: the types of a `SPEC.toml`, which are checked before anything starts."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from anyshot.errors import InputError
from anyshot.runs.records import Setting
from anyshot.sweeps.faults import explain_fault

MOST_RUNS = 10_000
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Range(_Part):
    """Numbers from `low` to `high`: whole ones if both are; spread evenly over the logarithm if `log`."""

    low: int | float
    high: int | float
    log: bool = False

    @model_validator(mode="after")
    def _check(self) -> Range:
        if not self.low < self.high:
            raise ValueError(f"low must be below high, got {self.low} and {self.high}")
        if self.log and self.low <= 0:
            raise ValueError(f"low must be above 0 where log is true, got {self.low}")
        return self

    @property
    def whole(self) -> bool:
        """Whether only whole numbers are drawn."""
        return isinstance(self.low, int) and isinstance(self.high, int)


def _flat(value: Any, leaf: frozenset[str] = frozenset()) -> Any:
    """Tables of tables as one table with dotted names; a table with nothing but keys of `leaf` is a value."""
    if not isinstance(value, Mapping):
        return value
    found: dict[str, Any] = {}
    for name, inner in value.items():
        if not isinstance(name, str):
            raise ValueError(f"names of settings are texts, got {name!r}")
        if inner == {}:
            raise ValueError(f"{name} is an empty table; give it a value, or leave it out")
        deeper = isinstance(inner, Mapping) and not (inner and leaf and set(inner) <= leaf)
        parts = {f"{name}.{key}": part for key, part in _flat(inner, leaf).items()} if deeper else {name: inner}
        for key, part in parts.items():
            if key in found:
                raise ValueError(f"{key} is there twice")
            found[key] = list(part) if isinstance(part, tuple) else part
    return found


def _flat_space(value: Any) -> Any:
    return _flat(value, frozenset(Range.model_fields))


Settings = Annotated[dict[str, Setting], BeforeValidator(_flat)]
Choices = Annotated[list[Setting], Field(min_length=1)]


class Row(_Part):
    """One entry of `list`: settings, of one experiment and learner or of all."""

    experiment: str | None = None
    learner: str | None = None
    settings: Settings = {}


class Search(_Part):
    """Candidates that are drawn.

    Attributes:
        method: random, or optuna, whose tree-structured Parzen estimator learns from the results.
        trials: candidates, for each experiment and learner.
        space: for each setting a `Range` or a list of choices.
        seed: of the draws.
        batch: optuna draws so many at a time, with the results of all batches before.
    """

    method: Literal["random", "optuna"] = "random"
    trials: int = Field(ge=1, le=MOST_RUNS)
    space: Annotated[dict[str, Range | Choices], BeforeValidator(_flat_space), Field(min_length=1)]
    seed: Seed = 0
    batch: int = Field(default=4, ge=1, le=1000)


class Stopping(_Part):
    """Asynchronous successive halving (ASHA) of a search, on the cumulative loss at equal numbers of tasks.

    Attributes:
        tasks: the numbers of tasks at which a candidate is judged.
        factor: the best 1 / factor of the candidates that were there go on.
    """

    tasks: list[Annotated[int, Field(ge=1)]] = Field(min_length=1)
    factor: float = Field(default=3.0, gt=1.0)

    @model_validator(mode="after")
    def _check(self) -> Stopping:
        if self.tasks != sorted(set(self.tasks)):
            raise ValueError(f"tasks must rise, got {self.tasks}")
        return self


class Spec(_Part):
    """A sweep: candidates, each run with every seed.

    Attributes:
        experiments: names of presets, or "module:function" for own ones: a function (learner, seed, settings) that
            returns an `Experiment`.
        learners: names of learners; by default that of the preset.
        seeds: of the runs.
        settings: for all runs, by dotted names.
        grid: values of settings; all combinations are run.
        list: sets of settings; each is run.
        search: settings are drawn.
        stopping: whether poor candidates of a search are stopped.
    """

    experiments: list[str] = Field(min_length=1)
    learners: list[str] | None = Field(default=None, min_length=1)
    seeds: list[Seed] = Field(default=[0], min_length=1)
    settings: Settings = {}
    grid: Annotated[dict[str, Choices], BeforeValidator(_flat), Field(min_length=1)] | None = None
    rows: list[Row] | None = Field(default=None, alias="list", min_length=1)
    search: Search | None = None
    stopping: Stopping | None = None

    @model_validator(mode="after")
    def _check(self) -> Spec:
        ways = {"grid": self.grid, "list": self.rows, "search": self.search}
        given = [name for name, value in ways.items() if value is not None]
        if len(given) > 1:
            raise ValueError(f"give one of grid, list and search, got {' and '.join(given)}")
        if self.stopping is not None and self.search is None:
            raise ValueError("stopping is for a search, and there is none")
        varied = [*(self.grid or {}), *(self.search.space if self.search else {})]
        twice = [name for name in varied if name in self.settings]
        if twice:
            raise ValueError(f"{twice[0]} is fixed in settings and varied as well; choose one")
        for name in ("experiments", "learners", "seeds"):
            values = getattr(self, name) or []
            if len(set(values)) < len(values):
                raise ValueError(f"{name} has an entry twice: {values}")
        self._check_rows()
        if self.count > MOST_RUNS:
            raise ValueError(
                f"there are {self.count:,} combinations of experiments, learners, settings and seeds, and a sweep may "
                f"have {MOST_RUNS:,} runs; vary less, or use [search]"
            )
        return self

    def _check_rows(self) -> None:
        """Refuse names beside a list that no row of it uses."""
        rows = self.rows or []
        if rows and self.learners is not None and all(row.learner is not None for row in rows):
            raise ValueError(
                f"learners is {self.learners}, which has no effect, since every [[list]] names its own learner; leave "
                "it out"
            )
        if rows and all(row.experiment is not None for row in rows):
            unused = [name for name in self.experiments if name not in {row.experiment for row in rows}]
            if unused:
                raise ValueError(f"experiments has {unused[0]}, which has no effect: every [[list]] names another one")

    @property
    def count(self) -> int:
        """Runs, at most."""
        settings = len(self.rows or [0])
        if self.grid is not None:
            settings = math.prod(map(len, self.grid.values()))
        elif self.search is not None:
            settings = self.search.trials
        return len(self.experiments) * len(self.learners or [0]) * len(self.seeds) * settings


def read_spec(spec: str | Path | Mapping[str, Any]) -> Spec:
    """A sweep from a TOML file, or from the same content as a dict.

    >>> read_spec({"experiments": ["sinusoid"], "seeds": [0, 1], "grid": {"learner": {"inner_rate": [0.1, 0.3]}}}).count
    4
    """
    where, content = "the spec", spec
    if not isinstance(spec, Mapping):
        if not isinstance(spec, str | Path):
            raise InputError(f"spec must be the name of a TOML file, or a dict with the same content, got {spec!r:.60}")
        where = str(spec) or "''"
        try:
            content = tomllib.loads(Path(spec).read_text("utf-8"))
        except OSError as error:
            raise InputError(f"the spec {where} cannot be read: {error.strerror or error}") from error
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InputError(f"the spec {where} is not TOML: {error}") from error
    try:
        return Spec.model_validate(content)
    except ValidationError as error:
        raise InputError(f"{where} is no sweep: {explain_fault(error)}") from error
