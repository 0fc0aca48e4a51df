"""Buy, stop or hopeless: the rules one by one, and what comes of following them on simulated tasks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshot.lifelong.across_tasks import Look, fit_across
from anyshot.lifelong.advice import STOP_LEVEL, Advice, Curve, advise
from anyshot.lifelong.near_looks import Interval
from anyshot.lifelong.sequences import confidence_sequence
from tests.support.refusals import Case, assert_refused, parametrized
from tests.support.simulated_tasks import SimulatedTask

OPEN = (0.0, 1.0)
UNSURE = Interval(0.8, 0.7, 0.95)


def straight(end: float, start: float = 0.5, labels: int = 100) -> Curve:
    """A curve that grows by the same step with each label."""
    return Curve(np.array([0.0, float(labels)]), np.array([start, end]))


def ask(
    estimate: Interval | None,
    own: tuple[float, float] = OPEN,
    labels: int = 10,
    curves: list[Curve] | None = None,
    **asked: float,
) -> Advice:
    return advise(estimate, own, labels, curves or [], **{"target": 0.9, "price": 0.5, "budget": 20.0, **asked})


@pytest.mark.parametrize(
    ("estimate", "own", "action"),
    [
        (Interval(0.95, 0.91, 0.99), (0.7, 1.0), "stop"),
        (Interval(0.95, 0.9, 0.99), (0.7, 0.9), "stop"),
        (Interval(0.95, 0.89, 0.99), (0.7, 1.0), "buy"),
        (Interval(0.95, 0.91, 0.99), (0.4, 0.85), "buy"),  # the task's own labels contradict
        (None, (0.7, 1.0), "buy"),
        (None, (0.91, 1.0), "stop"),
        (UNSURE, (0.91, 1.0), "stop"),
    ],
)
def test_stops_by_past_tasks_unless_own_labels_contradict_or_by_own_labels(
    estimate: Interval | None, own: tuple[float, float], action: str
) -> None:
    advice = ask(estimate, own)
    assert advice.action == action
    assert advice.cost == (0 if action == "stop" else None)
    assert str(advice).startswith(f"{action}: ")


def test_an_error_reaches_its_target_from_above() -> None:
    assert ask(Interval(0.2, 0.1, 0.3), target=0.3, measure="error").action == "stop"
    assert ask(Interval(0.2, 0.1, 0.3), target=0.25, measure="error").action == "buy"
    assert ask(Interval(0.2, 0.1, 0.3), (0.35, 0.9), target=0.3, measure="error").action == "buy"
    assert ask(None, (0.1, 0.29), target=0.3, measure="error").action == "stop"
    falling = [straight(0.1, start=1.0)] * 20
    advice = ask(Interval(0.9, 0.8, 1.0), curves=falling, target=0.28, budget=100.0, measure="error")
    assert (advice.action, advice.labels) == ("buy", 70)


def test_expected_labels_are_the_median_of_similar_tasks_that_reach_the_target() -> None:
    """From 0.5 in steps of (end - 0.5)/100: 0.9 is reached after 40/(end - 0.5) labels, of which 10 are there."""
    ends = [0.92, 0.94, 0.96, 0.98, 1.0] * 4
    advice = ask(Interval(0.54, 0.5, 0.6), curves=[straight(end) for end in ends], budget=100.0)
    assert advice.action == "buy"
    further = sorted(40 / (end - 0.5) - 10 for end in [0.92, 0.94, 0.96, 0.98, 1.0])
    assert advice.labels in {math.ceil(wait) for wait in further}
    assert advice.cost == advice.labels * 0.5


def test_similar_tasks_decide_and_not_the_others() -> None:
    good, bad = [straight(1.0, 0.8) for _ in range(40)], [straight(0.4, 0.3) for _ in range(20)]
    assert ask(Interval(0.82, 0.7, 0.9), curves=good + bad, budget=40.0).action == "buy"
    assert ask(Interval(0.31, 0.2, 0.5), curves=good + bad, budget=40.0).action == "hopeless"


def test_hopeless_only_if_fewer_than_one_in_ten_reach_it_with_the_budget() -> None:
    curves = [straight(1.0) for _ in range(20)]  # 0.9 after 80 labels, so after 70 more
    assert ask(UNSURE, curves=curves, budget=35.0).action == "buy"
    assert ask(UNSURE, curves=curves, budget=34.0).action == "hopeless"
    mixed = [straight(1.0)] + [straight(0.6) for _ in range(9)]
    assert ask(UNSURE, curves=mixed, budget=40.0).action == "buy"
    assert ask(UNSURE, curves=[*mixed[1:], straight(0.6)], budget=40.0).action == "hopeless"


def test_curves_that_end_early_prove_nothing() -> None:
    short = [straight(0.6, labels=30) for _ in range(20)]
    assert ask(UNSURE, curves=short, budget=20.0).action == "hopeless"  # 40 labels, of which 20 were seen
    assert ask(UNSURE, curves=short, budget=30.0).action == "buy"
    assert ask(UNSURE, curves=short, budget=math.inf).action == "buy"
    assert ask(UNSURE, curves=short[:9], budget=20.0).action == "buy"  # too few
    # Half end early, half go on and reach it: those that ended might have, too.
    both = [straight(0.6, labels=30) for _ in range(10)] + [straight(1.0) for _ in range(10)]
    advice = ask(Interval(0.55, 0.5, 0.6), curves=both, budget=50.0)
    assert "100%" in advice.reason


def test_a_budget_that_buys_nothing_is_hopeless() -> None:
    assert ask(None, budget=0.4).action == "hopeless"
    assert ask(None, budget=0.5).action == "buy"
    assert ask(None, price=0.1, budget=0.1 + 0.1 + 0.1).action == "buy"
    assert ask(Interval(0.95, 0.91, 0.99), budget=0.0).action == "stop"


@given(st.lists(st.tuples(st.integers(0, 50), st.floats(0, 1), st.integers(0, 40)), max_size=8))
def test_curve_never_falls_and_leaves_out_looks_that_few_labels_judge(found: list[tuple[int, float, int]]) -> None:
    looks = [Look(labels, later=later, later_count=count) for labels, later, count in found]
    curve, used = Curve.of(looks), [look for look in looks if look.later_count >= 10]
    assert (curve is None) == (not used)
    if curve is not None:
        assert np.all(np.diff(curve.values) >= -1e-12)
        assert np.all(np.diff(curve.labels) >= 0)
        weights = [look.later_count for look in sorted(used, key=lambda look: look.labels)]
        total = sum(look.later * look.later_count for look in used)
        assert np.dot(curve.values, weights) == pytest.approx(total, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["power law", "easy or hard"])  # most of these can reach the target
def test_followed_advice_seldom_stops_below_the_target_and_saves_labels(kind: str) -> None:
    rng, below, own_only = np.random.default_rng(2), [], []
    for _ in range(4):
        past = [SimulatedTask.draw(kind, rng).looks() for _ in range(60)]
        across = fit_across(past)
        assert across is not None
        for _ in range(25):
            task = SimulatedTask.draw(kind, rng)
            stopped: dict[str, int] = {}
            for n in range(2, 151, 4):
                own = confidence_sequence(int(task.right[:n].sum()), n)
                past_tasks = across.estimate(task.look(n), STOP_LEVEL)
                for name, estimate in (("both", past_tasks), ("own", None)):
                    advice = advise(estimate, own, n, [], target=0.9, price=1.0, budget=150.0 - n)
                    if advice.action == "stop":
                        stopped.setdefault(name, n)
                if len(stopped) == 2:
                    break
            if "both" in stopped:
                below.append(task.accuracy[stopped["both"]] < 0.9)
                own_only.append(stopped.get("own", 150) - stopped["both"])
    assert len(below) > 10
    assert np.mean(below) <= 0.15
    assert np.median(own_only) > 20


REFUSED: list[Case] = [
    ("price 0", lambda: ask(None, price=0), ["price", "0", "positive"]),
    ("price NaN", lambda: ask(None, price=math.nan), ["price", "nan"]),
    ("budget", lambda: ask(None, budget=-1.0), ["budget", "-1"]),
    ("target", lambda: ask(None, target=math.nan), ["target", "nan"]),
]


@parametrized(REFUSED)
def test_refusals(call, words) -> None:
    assert_refused(call, words)
