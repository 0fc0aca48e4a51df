"""Candidates and their runs: what each is made of, and the folder it has."""

from __future__ import annotations

import functools
import hashlib
import importlib
import itertools
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anyshot.errors import InputError
from anyshot.runs.presets import Preset, preset
from anyshot.runs.settings import change, format_value, list_settings
from anyshot.sweeps.spec import Row, Spec

if TYPE_CHECKING:
    from anyshot.runs.experiment import Experiment
    from anyshot.tasks import TaskSet

SLUG = 60  # characters of a folder's name that tell of settings


@dataclass(frozen=True)
class Candidate:
    """What is compared: an experiment, a learner and settings, as JSON in `changes`.

    Attributes:
        experiment: the name of a preset, or "module:function".
        learner: its name; None for an own experiment that does not ask.
        changes: the settings that differ from the preset's, as JSON with sorted names.
    """

    experiment: str
    learner: str | None
    changes: str

    @classmethod
    def of(cls, experiment: str, learner: str | None, settings: Mapping[str, Any]) -> Candidate:
        """The candidate with these settings; unknown names and values are refused."""
        if ":" in experiment:
            return cls(experiment, learner, json.dumps(dict(settings), sort_keys=True))
        found = preset(experiment)
        learner = learner or found.default_learner
        before = list_settings(found, learner)
        try:
            after = list_settings(change(found, learner, settings), learner)
        except InputError as error:
            raise InputError(f"{learner} on {experiment}: {error}") from error
        differ = {name: value for name, value in after.items() if name not in before or before[name] != value}
        return cls(experiment, learner, json.dumps(differ, sort_keys=True))

    @property
    def is_own(self) -> bool:
        """Whether a function of the user makes its experiments."""
        return ":" in self.experiment

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that are changed."""
        return dict(json.loads(self.changes))

    def describe(self, fixed: Collection[str] = ()) -> str:
        """In words, without the settings of these names, which all candidates have."""
        settings = {name: value for name, value in self.settings.items() if name not in fixed}
        shown = ", ".join(f"{_short(name)} {_value(value)}" for name, value in settings.items())
        return f"{self.learner or self.experiment}" + (f" ({shown})" if shown else "")

    def __str__(self) -> str:
        return self.describe()

    @property
    def name(self) -> str:
        """Of the folders of its runs, without the seed.

        >>> Candidate.of("sinusoid", "toe", {"learner.meta_rate": 0.01}).name
        'sinusoid/toe-meta_rate=0.01-adb64244'
        """
        parts = [self.learner or "own", *(f"{_short(name)}={_value(value)}" for name, value in self.settings.items())]
        slug = re.sub(r"[^\w.,+=-]", "_", "-".join(parts))[:SLUG].rstrip("-")
        digest = hashlib.sha256(json.dumps([self.experiment, self.learner, self.changes]).encode()).hexdigest()[:8]
        return f"{self.experiment.replace(':', '.')}/{slug}" + (f"-{digest}" if self.settings else "")

    def make(self, seed: int) -> Experiment:
        """The experiment."""
        from anyshot.runs.experiment import Experiment
        from anyshot.runs.make import experiment_of

        if not self.is_own:
            assert self.learner is not None
            changed = change(preset(self.experiment), self.learner, self.settings)
            return experiment_of(changed, self.learner, seed, _load(_Data.of(changed)))
        function = import_function(self.experiment)
        try:
            made = function(self.learner, seed, self.settings)
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"{self.experiment} raised {type(error).__name__} ({error}) for learner {self.learner!r}, seed {seed} "
                f"and settings {self.settings!r}; call it in Python to see where"
            ) from error
        if not isinstance(made, Experiment):
            raise InputError(f"{self.experiment} must return an Experiment, got {type(made).__name__}")
        if made.seed != seed:
            raise InputError(
                f"{self.experiment} was asked for seed {seed} and returned an Experiment with seed {made.seed}; give "
                "its own argument seed to the Experiment"
            )
        return made


@dataclass(frozen=True)
class Trial:
    """A candidate with a seed: one run folder."""

    candidate: Candidate
    seed: int

    @property
    def name(self) -> str:
        """Of its run folder, relative to the sweep's."""
        return f"{self.candidate.name}-s{self.seed}"

    def __str__(self) -> str:
        return f"{self.candidate}, seed {self.seed}"


def list_bases(spec: Spec) -> list[tuple[str, str | None]]:
    """The experiments and learners that candidates have."""
    learners: list[str | None] = [*spec.learners] if spec.learners else [None]
    return list(itertools.product(spec.experiments, learners))


def list_candidates(spec: Spec) -> list[Candidate]:
    """The candidates of a grid, of a list, or of neither; those of a search are drawn as it goes."""
    found = (Candidate.of(*base, spec.settings | more) for base, more in _list_settings(spec))
    return list(dict.fromkeys(found))


def _list_settings(spec: Spec) -> Iterator[tuple[tuple[str, str | None], dict[str, Any]]]:
    for experiment, learner in list_bases(spec):
        if spec.grid is not None:
            for values in itertools.product(*spec.grid.values()):
                yield (experiment, learner), dict(zip(spec.grid, values, strict=True))
        else:
            for row in spec.rows or [Row()]:
                yield (row.experiment or experiment, row.learner or learner), row.settings


def import_function(name: str) -> Any:
    """The function that "module:function" names."""
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"experiments has {name!r}, which cannot be imported: {error}") from error
    if not callable(found):
        raise InputError(f"experiments has {name!r}, which must be a function (learner, seed, settings), got {found!r}")
    return found


@dataclass(frozen=True)
class _Data:
    """Which task set a preset has."""

    name: str
    seed: int
    settings: str

    @classmethod
    def of(cls, found: Preset) -> _Data:
        return cls(found.data, found.data_seed, json.dumps(dict(found.data_settings)))


@functools.lru_cache(maxsize=2)
def _load(data: _Data) -> TaskSet:
    """The task set, kept for the next run."""
    from anyshot.tasks import load_tasks

    return load_tasks(data.name, seed=data.seed, **json.loads(data.settings))


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return format_value(tuple(value) if isinstance(value, list) else value)
