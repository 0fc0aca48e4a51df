"""Whether to buy more labels for a task, to stop, or to give it up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import CensoredData, ecdf  # type: ignore[import-untyped]
from sklearn.isotonic import IsotonicRegression

from anyshot.errors import InputError
from anyshot.lifelong.across_tasks import MIN_LATER, Look, Measure
from anyshot.lifelong.near_looks import Interval
from anyshot.limits import is_number

STOP_LEVEL = (
    0.95  # of the estimate whose lower end decides; advice is asked many times, so 0.9 stops too early too often
)
HOPELESS_SHARE = 0.1  # of similar past tasks that reach the target with the labels that can be paid
MIN_SIMILAR = 10  # past tasks to compare with


@dataclass(frozen=True)
class Advice:
    """What to do next.

    Attributes:
        action: "buy" labels, "stop" as the target is reached, or "hopeless": it will not be reached.
        reason: why, in a sentence.
        labels: further labels to expect until the target is reached; None if past tasks do not say.
        cost: their price.
    """

    action: Literal["buy", "stop", "hopeless"]
    reason: str
    labels: int | None = None
    cost: float | None = None

    def __str__(self) -> str:
        return f"{self.action}: {self.reason}"


@dataclass(frozen=True, eq=False)
class Curve:
    """The learning curve of a past task.

    Attributes:
        labels: numbers of labels, increasing.
        values: the accuracy (or mean squared error) with so many labels; it never gets worse.
    """

    labels: Float[np.ndarray, " looks"]
    values: Float[np.ndarray, " looks"]

    @classmethod
    def of(cls, looks: Sequence[Look], measure: Measure = "accuracy") -> Curve | None:
        """The best curve, without any step back, through what was found on ten or more later labels; None without any.

        >>> print(Curve.of([Look(0, later=0.5, later_count=30), Look(9, later=0.8, later_count=10)]).values)
        [0.5 0.8]
        """
        known = sorted((look for look in looks if look.later_count >= MIN_LATER), key=lambda look: look.labels)
        if not known:
            return None
        labels = np.array([look.labels for look in known], float)
        regression = IsotonicRegression(increasing=measure == "accuracy")
        later, counts = [look.later for look in known], [look.later_count for look in known]
        return cls(labels, regression.fit_transform(labels, later, sample_weight=counts))


def advise(
    estimate: Interval | None,
    sequence: tuple[float, float],
    labels: int,
    curves: Sequence[Curve],
    *,
    target: float | int,
    price: float | int,
    budget: float | int,
    measure: Measure = "accuracy",
) -> Advice:
    """Say whether to buy more labels for a task.

    - Stop, if the lower end of `estimate` has reached the target and the upper end of `sequence` does not contradict
      it; or if the lower end of `sequence` alone has reached it.
    - Hopeless, if of the past tasks that looked like this one (the third whose accuracy was nearest at this number of
      labels, and at least ten) fewer than one in ten reached the target with as many further labels as the budget buys.
      Their curves must go at least half as far.
    - Buy, otherwise.

    For "error" a target is reached from above, and the ends change roles.

    Args:
        estimate: from past tasks, at the level `STOP_LEVEL`; None while there are too few.
        sequence: the confidence sequence of the task's own labels.
        labels: number of labels that the task has.
        curves: learning curves of past tasks.
        target: accuracy that is wanted.
        price: of a label.
        budget: what may still be spent on this task.
        measure: "accuracy", or "error" for mean squared errors.

    >>> tops = np.linspace(0.8, 1, 20)
    >>> curves = [Curve(np.array([0.0, 10.0, 100.0]), np.array([0.5, top - 0.2, top])) for top in tops]
    >>> print(advise(Interval(0.75, 0.7, 0.8), (0.4, 0.9), 10, curves, target=0.9, price=0.4, budget=30))
    buy: 70% of similar past tasks reached 0.9 within 75 further labels, half of these within 60
    >>> print(advise(Interval(0.93, 0.91, 0.97), (0.8, 1.0), 40, curves, target=0.9, price=0.4, budget=38).action)
    stop
    """
    check_request(target, price, budget, measure)
    sign = 1 if measure == "accuracy" else -1
    goal = sign * target
    own = sorted(sign * end for end in sequence)
    if estimate is not None and min(sign * estimate.low, sign * estimate.high) >= goal and own[1] >= goal:
        return Advice("stop", f"by past tasks the {measure} is {estimate}, which reaches {target:g}", 0, 0.0)
    if own[0] >= goal:
        ends = f"[{sequence[0]:.2f}, {sequence[1]:.2f}]"
        return Advice(
            "stop", f"the task's own labels alone show an {measure} in {ends}, which reaches {target:g}", 0, 0.0
        )
    affordable = math.floor(budget / price + 1e-9) if budget < math.inf else math.inf
    if affordable < 1:
        return Advice("hopeless", f"{target:g} is not reached, and a budget of {budget:g} buys no label at {price:g}")
    if estimate is None:
        return Advice(
            "buy", f"too few tasks are closed to learn from, and the task's own labels do not show {target:g}"
        )
    waits, reached = _find_waits(_find_similar(curves, labels, estimate.value), labels, goal, sign)
    if len(waits) < MIN_SIMILAR:
        return Advice("buy", f"by past tasks the {measure} is {estimate}; how fast it grows from here they do not say")
    return _forecast(waits, reached, affordable, target, price)


def _forecast(
    waits: Float[np.ndarray, " tasks"],
    reached: Bool[np.ndarray, " tasks"],
    affordable: float | int,
    target: float | int,
    price: float | int,
) -> Advice:
    """Buy or hopeless, by how many further labels similar tasks needed, or had when their curve ended."""
    needed = ecdf(CensoredData(uncensored=waits[reached], right=waits[~reached])).cdf  # Kaplan and Meier
    horizon = min(affordable, waits.max())
    share = float(needed.evaluate(horizon))
    found = f"{share:.0%} of similar past tasks reached {target:g} within {horizon:.0f} further labels"
    if share < HOPELESS_SHARE - 1e-9:
        if horizon >= affordable / 2:
            return Advice("hopeless", f"only {found}, and the budget buys {affordable}")
        return Advice("buy", f"only {found}, but the budget buys {affordable}, and past curves do not go that far")
    labels = max(1, math.ceil(needed.quantiles[np.searchsorted(needed.probabilities, share / 2)]))
    return Advice("buy", f"{found}, half of these within {labels}", labels, labels * price)


def _find_similar(curves: Sequence[Curve], labels: int, value: float) -> list[Curve]:
    """The third of the curves, and at least ten, whose value was nearest to this one at this number of labels."""
    curves = [curve for curve in curves if curve.labels[0] <= labels < curve.labels[-1]]
    distances = [abs(float(np.interp(labels, curve.labels, curve.values)) - value) for curve in curves]
    order = np.argsort(distances, kind="stable")
    return [curves[place] for place in order[: max(MIN_SIMILAR, len(curves) // 3)]]


def _find_waits(
    curves: Sequence[Curve], labels: int, goal: float, sign: int
) -> tuple[Float[np.ndarray, " tasks"], Bool[np.ndarray, " tasks"]]:
    """For each curve the further labels until the goal, and whether it was reached; if not, those until its end."""
    waits, reached = [], []
    for curve in curves:
        values, end = sign * curve.values, curve.labels[-1]
        reached.append(bool(values[-1] >= goal))
        if reached[-1]:
            first = int(np.argmax(values >= goal))
            piece = slice(max(first - 1, 0), first + 1)
            end = np.interp(goal, values[piece], curve.labels[piece])
        waits.append(max(float(end) - labels, 0.0))
    return np.array(waits), np.array(reached, bool)


def check_request(target: Any, price: Any, budget: Any, measure: Measure) -> None:
    """Refuse a target that cannot be reached by any predictions, and sums of money that are none."""
    if measure == "accuracy" and not (is_number(target) and 0 <= target <= 1):
        raise InputError(f"target must be between 0 and 1, as it is an accuracy, got {target!r}")
    if measure == "error" and not (is_number(target) and 0 <= target < math.inf):
        raise InputError(f"target must be a finite number of at least 0, as it is a squared error, got {target!r}")
    if not (is_number(price) and 0 < price < math.inf):
        raise InputError(f"price must be a positive, finite number, got {price!r}; it is that of one label")
    if not (is_number(budget) and budget >= 0):
        raise InputError(f"budget must be a number of at least 0, got {budget!r}")
