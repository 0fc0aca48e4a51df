"""Candidates that are drawn: at random, or by Optuna from the results so far. The same results give the same draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from anyshot.errors import InputError
from anyshot.sweeps.spec import Range, Search


@dataclass(frozen=True)
class Fate:
    """What became of a candidate.

    Attributes:
        values: its mean loss by the number of tasks at which it was judged.
        loss: its mean loss at the end; None if it was stopped or diverged.
    """

    values: dict[int, float]
    loss: float | None


class RandomSampler:
    """Draws all candidates at once; what is drawn does not depend on results."""

    def __init__(self, search: Search) -> None:
        self.search = search

    def ask(self, count: int, first: int) -> list[dict[str, Any]]:
        """The settings of candidates `first`, `first` + 1, ..."""
        return [self._draw(number) for number in range(first, first + count)]

    def tell(self, fates: Sequence[Fate]) -> None:
        """Nothing is learned."""

    @property
    def batch(self) -> int:
        """How many are asked for at a time."""
        return self.search.trials

    def _draw(self, number: int) -> dict[str, Any]:
        draw = np.random.default_rng([self.search.seed, number])
        found: dict[str, Any] = {}
        for name, space in self.search.space.items():
            at = float(draw.random())
            if not isinstance(space, Range):
                found[name] = space[int(at * len(space))]
            elif space.whole:
                found[name] = min(int(_between(space, at, 1.0)), int(space.high))
            else:
                found[name] = _rounded(_between(space, at), space)
        return found


class OptunaSampler:
    """Optuna's TPE, asked for a batch at a time, and told all of a batch before the next.

    The study is not stored: told the same results in the same order it draws the same candidates, and the results are
    in the run folders.
    """

    def __init__(self, search: Search) -> None:
        if find_spec("optuna") is None:
            raise InputError("method = 'optuna' needs the package optuna; get it with: pip install 'anyshot[optuna]'")
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.search = search
        sampler = optuna.samplers.TPESampler(seed=search.seed, n_startup_trials=max(5, search.batch))
        self.study = optuna.create_study(sampler=sampler, pruner=optuna.pruners.NopPruner())
        self.asked: list[Any] = []
        self.space = {name: _distribution(space) for name, space in search.space.items()}

    @property
    def batch(self) -> int:
        """How many are asked for at a time."""
        return self.search.batch

    def ask(self, count: int, first: int) -> list[dict[str, Any]]:
        """The settings of the next candidates."""
        # Always a whole batch, so that a search with more trials later begins with the same ones.
        self.asked = [self.study.ask(self.space) for _ in range(self.batch)]
        return [self._settings(trial.params) for trial in self.asked[:count]]

    def tell(self, fates: Sequence[Fate]) -> None:
        """What became of the candidates asked for last."""
        from optuna.trial import TrialState

        for trial, fate in zip(self.asked, fates, strict=False):
            for tasks, value in fate.values.items():
                if math.isfinite(value):
                    trial.report(value, tasks)
            if fate.loss is not None:
                self.study.tell(trial, fate.loss)
            else:  # also if it diverged: TPE takes no account of trials that have failed
                self.study.tell(trial, state=TrialState.PRUNED)

    def _settings(self, params: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, space in self.search.space.items():
            if not isinstance(space, Range):
                found[name] = space[params[name]]
            else:
                found[name] = params[name] if space.whole else _rounded(params[name], space)
        return found


def make_sampler(search: Search) -> RandomSampler | OptunaSampler:
    """What draws the candidates of a search."""
    return OptunaSampler(search) if search.method == "optuna" else RandomSampler(search)


def ends_of(search: Search) -> list[dict[str, Any]]:
    """Settings that a search may draw: the lower ends and the upper ends of all ranges, the first and last choices."""
    return [
        {
            name: (space.high if end else space.low) if isinstance(space, Range) else space[-end]
            for name, space in search.space.items()
        }
        for end in (0, 1)
    ]


def _distribution(space: Range | list[Any]) -> Any:
    from optuna import distributions

    if not isinstance(space, Range):  # by place: Optuna knows no lists as choices
        return distributions.CategoricalDistribution(list(range(len(space))))
    if space.whole:
        return distributions.IntDistribution(int(space.low), int(space.high), log=space.log)
    return distributions.FloatDistribution(float(space.low), float(space.high), log=space.log)


def _between(space: Range, at: float, beyond: float = 0.0) -> float:
    """The number at a fraction of the range, which ends `beyond` its upper end."""
    low, high = float(space.low), space.high + beyond
    return math.exp(math.log(low) + at * (math.log(high) - math.log(low))) if space.log else low + at * (high - low)


def _rounded(value: float, space: Range) -> float:
    """Four digits are enough, and can be read."""
    return min(max(float(f"{value:.4g}"), float(space.low)), float(space.high))
