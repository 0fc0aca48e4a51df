"""Running a plan: legs are handed to a pool of workers until nothing is left, or until somebody asks to stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from anyshot.errors import DataError
from anyshot.report.words import count
from anyshot.runs.interrupts import catch_interrupts
from anyshot.sweeps.execute import Ended
from anyshot.sweeps.plan import Leg, Plan
from anyshot.sweeps.results import FolderResults
from anyshot.sweeps.trials import Trial
from anyshot.sweeps.worker import GRACE

POLL_SECONDS = 0.5
SECONDS_TO_SEE = 60.0


@runtime_checkable
class Pool(Protocol):
    """Workers: `LocalPool` or `RayPool`."""

    @property
    def free(self) -> int:
        """How many more legs can be begun now."""

    def submit(self, leg: Leg) -> None:
        """Begin a leg."""

    def wait(self, seconds: float) -> list[Ended]:
        """What has ended, after so many seconds at most."""

    def stop(self) -> None:
        """Ask all to save and end."""

    def kill(self) -> None:
        """End all now."""


@runtime_checkable
class Show(Protocol):
    """Shows how a sweep is getting on."""

    def begin(self, leg: Leg) -> None:
        """A leg was handed to the workers."""

    def end(self, ended: Ended) -> None:
        """A leg has ended."""

    def tick(self) -> None:
        """Some time has passed."""

    def say(self, line: str) -> None:
        """Something is worth a line."""


@dataclass
class Outcome:
    """What became of the runs.

    Attributes:
        done: finished now, in this order.
        failed: each with the reason; they are tried again by the next sweep.
        diverged: each with the reason; the same happens whenever they are tried again.
        left: how many runs have work left, because the sweep was stopped.
        stopped: why it was stopped; empty if it was not.
    """

    done: list[Trial] = field(default_factory=list)
    failed: dict[Trial, str] = field(default_factory=dict)
    diverged: dict[Trial, str] = field(default_factory=dict)
    left: int = 0
    stopped: str = ""


def run_plan(
    plan: Plan,
    results: FolderResults,
    pool: Pool,
    show: Show,
    seconds: float | None = None,
    keep: Callable[[Trial], None] | None = None,
) -> Outcome:
    """Run what is left of a plan. A run that fails does not stop the others.

    Args:
        plan: what to run.
        results: what is there already.
        pool: the workers.
        show: told what happens.
        seconds: after which all runs are asked to save and stop; None: no limit.
        keep: called with each finished run; a `DataError` from it counts as the run's failure.
    """
    outcome, running = Outcome(), dict[Leg, None]()
    end = None if seconds is None else time.monotonic() + seconds

    def collect(wait: float) -> bool:
        ended = pool.wait(wait)
        for one in ended:
            running.pop(one.leg, None)
            _note(one, results, outcome)
            show.end(one)
            if keep is not None and outcome.done[-1:] == [one.leg.trial]:
                _keep(one.leg.trial, keep, outcome, show)
        return bool(ended)

    with catch_interrupts() as requests:
        waiting, changed = list[Leg](), True
        while True:
            if changed:
                legs = dict.fromkeys(plan.legs(results))
                waiting = [leg for leg in legs if leg not in running and leg.trial not in outcome.failed]
            while waiting and pool.free > 0:
                leg = waiting.pop(0)
                running[leg] = None
                show.begin(leg)
                pool.submit(leg)
            if not running:
                return outcome
            if requests or (end is not None and time.monotonic() >= end):
                break
            changed = collect(POLL_SECONDS)
            show.tick()
        outcome.stopped = "interrupted" if requests else "the time is over"
        show.say(f"stopping {count(len(running), 'run')}, which save first; that takes {GRACE:.0f} s at most")
        pool.stop()
        asked, until = len(requests), time.monotonic() + GRACE
        while running and len(requests) == asked and time.monotonic() < until:
            collect(POLL_SECONDS)
        if running:
            pool.kill()
    outcome.left = len({leg.trial for leg in plan.legs(results)} - outcome.failed.keys())
    return outcome


def _note(one: Ended, results: FolderResults, outcome: Outcome) -> None:
    trial = one.leg.trial
    results.read(trial)
    until = time.monotonic() + SECONDS_TO_SEE
    while one.kind == "done" and results.loss(trial, one.leg.until) is None and time.monotonic() < until:
        time.sleep(POLL_SECONDS)  # a network file system may show a new file only after a while
        results.read(trial)
    if one.kind == "diverged":
        results.mark_diverged(trial)
        outcome.diverged[trial] = one.why
    elif one.kind == "done" and results.loss(trial, one.leg.until) is None:  # it could not be read back
        outcome.failed[trial] = f"{results.folder(trial)} does not show what the run has written there"
    elif one.kind == "done" and results.loss(trial, None) is not None:
        outcome.done.append(trial)
    elif one.kind == "failed" and not outcome.stopped:  # a worker that is asked to stop while it starts just ends
        outcome.failed[trial] = one.why


def _keep(trial: Trial, keep: Callable[[Trial], None], outcome: Outcome, show: Show) -> None:
    try:
        keep(trial)
    except DataError as error:  # the run itself is whole, and the others go on
        outcome.done.remove(trial)
        outcome.failed[trial] = str(error)
        show.say(f"{trial}: {error}")
