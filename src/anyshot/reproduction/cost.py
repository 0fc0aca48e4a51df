"""What runs cost on an H200: steps at most, steps to expect, and minutes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from anyshot.reproduction.jobs import Job, last_event
from anyshot.reproduction.results import Results
from anyshot.runs.offline_presets import OFFLINE_PRESETS
from anyshot.runs.presets import PRESETS

TASKS = {"rainbow-mnist": 56, "contextual-miniimagenet": 100, "pose": 65}
WITHOUT_INNER_STEPS = ("toe", "a-gem", "protonet", "mann")


@dataclass(frozen=True)
class StepTime:
    """Milliseconds of a step on an otherwise idle H200.

    Attributes:
        adapting: of a method that adapts.
        plain: of a method that does not: TOE, A-GEM, ProtoNet, MANN; about.
        measured: whether the former is measured; else it is guessed, about as `--dry-run` of that preset does it.
        slower: how many times as long a step takes with so many runs side by side.
    """

    adapting: float
    plain: float
    measured: bool = False
    slower: tuple[tuple[int, float], ...] = ((1, 1.0), (2, 2.0))  # one run fills the card

    def slowed(self, parallel: int) -> float:
        """How many times as long: on the lines between what is known, and on beyond them.

        >>> times = StepTime(1.0, 1.0, slower=((1, 1.0), (4, 2.5), (6, 5.5)))
        >>> [times.slowed(parallel) for parallel in (1, 2, 4, 5, 6, 8)]
        [1.0, 1.5, 2.5, 4.0, 5.5, 8.5]
        """
        lines = list(pairwise(self.slower))
        (low, slow), (high, slower) = next((line for line in lines if parallel <= line[1][0]), lines[-1])
        return slow + (slower - slow) * (parallel - low) / (high - low)


SHARING = ((1, 1.0), (5, 3.8), (7, 4.2), (12, 11.0))  # measured with rainbow-mnist and pose, under NVIDIA's MPS
STEP_TIMES = {
    "rainbow-mnist": StepTime(2.1, 0.4, True, SHARING),
    "rainbow-mnist-borrow": StepTime(2.6, 0.6, False, SHARING),
    "rainbow-mnist-m10": StepTime(1.8, 0.4, True, SHARING),
    "rainbow-mnist-m30": StepTime(2.6, 0.4, True, SHARING),
    "rainbow-mnist-fixed": StepTime(2.1, 0.4, True, SHARING),
    "rainbow-mnist-offline": StepTime(2.1, 0.4, False, SHARING),
    "omniglot-50way": StepTime(7.4, 7.4),
    "pose": StepTime(2.5, 0.4, True, SHARING),
    "contextual-miniimagenet": StepTime(440.0, 80.0),
    "contextual-miniimagenet-fixed": StepTime(440.0, 80.0),
    "contextual-miniimagenet-offline": StepTime(440.0, 94.0),
}
# Of the steps at most, where tasks end when they are mastered: what was seen on Rainbow MNIST.
ADAPTING, PLAIN = 0.36, 0.85
START = 0.7  # minutes to start, compile and load


def most_steps(preset: str) -> int:
    """Steps of a run if no task ends early and training is not stopped early.

    >>> most_steps("rainbow-mnist"), most_steps("pose")
    (112000, 15600)
    """
    if preset in OFFLINE_PRESETS:
        plan = OFFLINE_PRESETS[preset][0].plan
        return plan.rounds * plan.every
    settings = PRESETS[preset][0]
    rules = settings.protocol
    online = (rules.tasks or TASKS[settings.data.name]) - rules.pretrain_tasks
    return rules.every * (online * rules.rounds + rules.pretrain_rounds)


def expected_steps(job: Job, results: Results) -> float:
    """What the same method took with other seeds, else a usual share of the most."""
    known = [one.steps for one in results.of(job.preset, job.learner).values()]
    if known:
        return sum(known) / len(known)
    early = job.preset in PRESETS and PRESETS[job.preset][0].protocol.advance
    share = PLAIN if job.learner in WITHOUT_INNER_STEPS else ADAPTING
    return most_steps(job.preset) * (share if early else 1.0)


def step_ms(job: Job, parallel: int) -> float:
    """Milliseconds of a step with `parallel` runs side by side."""
    times = STEP_TIMES[job.preset]
    alone = times.plain if job.learner in WITHOUT_INNER_STEPS else times.adapting
    return alone * times.slowed(parallel)


def minutes(jobs: Iterable[Job], results: Results, parallel: int, out: Path | None = None) -> float:
    """To run them, `parallel` at a time, on an H200; what is half done in `out` costs less."""
    waiting = list(jobs)
    at_once = max(1, min(parallel, len(waiting)))
    alone = [
        START + expected_steps(job, results) * (1 - _done(job, out)) * step_ms(job, at_once) / 60_000 for job in waiting
    ]
    return max([sum(alone) / at_once, *alone], default=0.0)


def guessed(jobs: Iterable[Job]) -> bool:
    """Whether a time among them is no measured one."""
    return any(not STEP_TIMES[job.preset].measured or job.learner in WITHOUT_INNER_STEPS for job in jobs)


def _done(job: Job, out: Path | None) -> float:
    """The share that is behind it, about."""
    event = last_event(job.folder(out)) if out is not None else None
    if event is None:
        return 0.0
    if job.preset in OFFLINE_PRESETS:
        return 1.0 if "test" in event else event["step"] / most_steps(job.preset)
    return event.get("position", 0) / TASKS[PRESETS[job.preset][0].data.name]
