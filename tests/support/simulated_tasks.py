"""Tasks whose true accuracy is known: learning curves of four kinds, labels right or wrong by chance, noisy looks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anyshot.lifelong.across_tasks import Look

MOST_LABELS = 200
LOOKS = (0, 1, 2, 3, 5, 8, 12, 18, 27, 40, 60, 90, 130)


def draw_power_law(rng: np.random.Generator) -> Callable[[np.ndarray], np.ndarray]:
    """1 - a (n + b)^-c with a, b and c of each task's own."""
    a, b, c = rng.uniform(0.3, 0.9), rng.uniform(1, 5), rng.uniform(0.2, 0.9)
    return lambda n: 1 - a * (n + b) ** -c


def draw_saturating(rng: np.random.Generator) -> Callable[[np.ndarray], np.ndarray]:
    """From some start to a beta-distributed top, as fast or slow as the task is."""
    top, start, labels = rng.beta(12, 2), rng.uniform(0.2, 0.8), rng.uniform(3, 30)
    return lambda n: top * (1 - (1 - start) * np.exp(-n / labels))


def draw_easy_or_hard(rng: np.random.Generator) -> Callable[[np.ndarray], np.ndarray]:
    """Three of five tasks are easy from the first labels on, the others as above."""
    if rng.random() < 0.4:
        return draw_saturating(rng)
    a, c = rng.uniform(0.02, 0.3), rng.uniform(0.3, 0.8)
    return lambda n: 1 - a * (n + 1) ** -c


def draw_nearly_perfect(rng: np.random.Generator) -> Callable[[np.ndarray], np.ndarray]:
    """Within some labels to an error of 1 % or so, which differs by a factor of several between tasks."""
    error, labels = min(0.2, math.exp(rng.normal(math.log(0.012), 0.9))), math.exp(rng.normal(1, 0.4))
    return lambda n: 1 - error - (0.5 - error) * np.exp(-n / labels)


KINDS = {
    "power law": draw_power_law,
    "saturating": draw_saturating,
    "easy or hard": draw_easy_or_hard,
    "nearly perfect": draw_nearly_perfect,
}


@dataclass(frozen=True, eq=False)
class SimulatedTask:
    """One task.

    Attributes:
        accuracy: true accuracy with 0, 1, ... labels.
        stream: how hard each label is: it is predicted right if this uniform number is below the accuracy.
        folds: such numbers for cross-validation.
        shift: how much the model's confidence is above its accuracy.
        wobble: of the confidence, at each number of labels.
        later: such numbers for labels beside the stream.
    """

    accuracy: np.ndarray
    stream: np.ndarray
    folds: np.ndarray
    shift: float
    wobble: np.ndarray
    later: np.ndarray

    @classmethod
    def draw(cls, kind: str, rng: np.random.Generator, later: tuple[int, int] = (20, 60)) -> SimulatedTask:
        accuracy = KINDS[kind](rng)(np.arange(MOST_LABELS + 1.0))
        stream, wobble = rng.random(MOST_LABELS), rng.normal(0, 0.03, MOST_LABELS + 1)
        folds, later_draws = rng.random(MOST_LABELS), rng.random(rng.integers(later[0], later[1] + 1))
        return cls(accuracy, stream, folds, rng.normal(0.03, 0.06), wobble, later_draws)

    @property
    def right(self) -> np.ndarray:
        """Whether label t was predicted right by the model that had seen the t before it."""
        return self.stream < self.accuracy[:-1]

    def look(self, n: int, bought: int | None = None) -> Look:
        """The look at n labels. Later labels are those up to `bought`, or some that are there beside."""
        recent = self.right[n // 2 : n]
        smaller = self.accuracy[int(0.8 * n)]
        later = self.later if bought is None else self.stream[n:bought]
        return Look(
            labels=n,
            progressive=float(recent.mean()) if n else math.nan,
            progressive_count=len(recent),
            cross_validated=float(np.mean(self.folds[:n] < smaller)) if n >= 4 else math.nan,
            confidence=float(np.clip(self.accuracy[n] + self.shift + self.wobble[n], 0.05, 0.999)),
            later=float(np.mean(later < self.accuracy[n])) if len(later) else math.nan,
            later_count=len(later),
        )

    def looks(self) -> list[Look]:
        return [self.look(n) for n in LOOKS]
