"""What is to run next. It follows from the spec and from what the run folders hold, and from nothing else.

In particular it does not depend on which run came first, so a sweep that was killed, or had other workers, ends with
the same folders.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from anyshot.report.words import count
from anyshot.sweeps.search import Fate, OptunaSampler, RandomSampler, make_sampler
from anyshot.sweeps.spec import Spec
from anyshot.sweeps.trials import Candidate, Trial, list_bases, list_candidates


@dataclass(frozen=True)
class Leg:
    """The unit of work: run a trial until so many tasks have ended; None: to its end."""

    trial: Trial
    until: int | None = None

    def describe(self, fixed: Collection[str] = ()) -> str:
        """In words, without the settings of these names, which all candidates have."""
        until = "" if self.until is None else f", until {count(self.until, 'task')}"
        return f"{self.trial.candidate.describe(fixed)}, seed {self.trial.seed}{until}"

    def __str__(self) -> str:
        return self.describe()


@runtime_checkable
class Results(Protocol):
    """What is known of the runs."""

    def loss(self, trial: Trial, until: int | None) -> float | None:
        """The cumulative loss at the end of a leg; infinite if the run diverged before; None if it is not done."""


@runtime_checkable
class Plan(Protocol):
    """What a sweep has to do."""

    trials: int  # runs in all, at most

    def legs(self, results: Results) -> list[Leg]:
        """The legs that can be run now, the most urgent first; none if all is done."""

    def list_trials(self) -> list[Trial]:
        """The runs that are known so far."""

    def stopped(self) -> dict[Candidate, int]:
        """The candidates that were stopped, with the number of tasks they had."""


class FixedPlan:
    """Runs that are known from the start, in this order."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self._legs = [Leg(trial) for trial in trials]
        self.trials = len(self._legs)

    def legs(self, results: Results) -> list[Leg]:
        """All that are not done."""
        return [leg for leg in self._legs if results.loss(leg.trial, None) is None]

    def list_trials(self) -> list[Trial]:
        """All runs."""
        return [leg.trial for leg in self._legs]

    def stopped(self) -> dict[Candidate, int]:
        """None."""
        return {}


class SearchPlan:
    """A search for each experiment and learner, with early stopping or without."""

    def __init__(self, spec: Spec) -> None:
        assert spec.search is not None
        self._parts = [_Search(spec, base, make_sampler(spec.search)) for base in list_bases(spec)]
        self.trials, self._seeds = spec.count, spec.seeds

    def legs(self, results: Results) -> list[Leg]:
        """Those of all searches, in the order of the candidates."""
        every = [leg for part in self._parts for leg in part.legs(results)]
        return [leg for _, leg in sorted(every, key=lambda one: one[0])]

    def list_trials(self) -> list[Trial]:
        """The runs of all candidates drawn so far."""
        drawn = (candidate for part in self._parts for candidate in part.asked)
        return [Trial(candidate, seed) for candidate in dict.fromkeys(drawn) for seed in self._seeds]

    def stopped(self) -> dict[Candidate, int]:
        """Those of all searches."""
        return {candidate: tasks for part in self._parts for candidate, tasks in part.stopped.items()}


@dataclass
class _Search:
    """One search. Candidate n is judged among the candidates up to n: it waits for those before it."""

    spec: Spec
    base: tuple[str, str | None]
    sampler: RandomSampler | OptunaSampler
    asked: list[Candidate] = field(default_factory=list)
    told: int = 0
    stopped: dict[Candidate, int] = field(default_factory=dict)

    def legs(self, results: Results) -> Iterator[tuple[int, Leg]]:
        """The legs that can be run now, each with the number of its candidate."""
        assert self.spec.search is not None
        while True:
            fates, work = self._judge(results)
            waits = len(fates) < len(self.asked) or len(self.asked) >= self.spec.search.trials
            if waits:
                return iter(work)
            self.sampler.tell(fates[self.told :])
            self.told = len(fates)
            count = min(self.sampler.batch, self.spec.search.trials - len(self.asked))
            drawn = self.sampler.ask(count, len(self.asked))
            self.asked += [Candidate.of(*self.base, self.spec.settings | settings) for settings in drawn]

    def _judge(self, results: Results) -> tuple[list[Fate], list[tuple[int, Leg]]]:
        """What became of the first candidates, up to one that is not done; and what can be run."""
        stopping = self.spec.stopping
        rungs: list[int | None] = [*(stopping.tasks if stopping else []), None]
        boards: list[list[float]] = [[] for _ in rungs]
        fates: list[Fate] = []
        work: list[tuple[int, Leg]] = []
        known = len(rungs)  # rungs below this one have the results of all candidates so far
        for number, candidate in enumerate(self.asked):
            values: dict[int, float] = {}
            for place, until in enumerate(rungs):
                losses = {seed: results.loss(Trial(candidate, seed), until) for seed in self.spec.seeds}
                missing = [seed for seed, loss in losses.items() if loss is None]
                work += [(number, Leg(Trial(candidate, seed), until)) for seed in missing]
                if missing or (until is not None and place >= known):
                    known = min(known, place)
                    break
                # All candidates have the same seeds, so these are sums over the same streams.
                loss = math.fsum(value for value in losses.values() if value is not None) / len(losses)
                if until is None:
                    fates.append(Fate(values, loss if math.isfinite(loss) else None))
                    break
                values[until] = loss
                boards[place].append(loss)
                if not goes_on(loss, boards[place], stopping.factor if stopping else 1.0):
                    self.stopped[candidate] = until
                    fates.append(Fate(values, None))
                    break
        return (fates if len(fates) == len(self.asked) else []), work


def goes_on(loss: float, board: Sequence[float], factor: float) -> bool:
    """Whether a candidate is among the best 1 / factor of a board that it is on; one that diverged never is.

    >>> [goes_on(loss, [3.0, 1.0, 2.0, 4.0], 2.0) for loss in (1.0, 2.0, 3.0)]
    [True, True, False]
    """
    better = sum(other < loss for other in board)
    return math.isfinite(loss) and better < math.ceil(len(board) / factor)


def make_plan(spec: Spec) -> FixedPlan | SearchPlan:
    """The plan of a spec: every candidate with the first seed, then with the second, and so on."""
    if spec.search is not None:
        return SearchPlan(spec)
    candidates = list_candidates(spec)
    return FixedPlan([Trial(candidate, seed) for seed in spec.seeds for candidate in candidates])
