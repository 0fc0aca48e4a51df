"""The estimate from past tasks: coverage of the true accuracy on simulated tasks, and its parts against references."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from anyshot.lifelong.across_tasks import AcrossTasks, Look, fit_across
from anyshot.lifelong.near_looks import Interval
from anyshot.lifelong.sequences import confidence_sequence
from tests.support.refusals import Case, assert_refused, parametrized
from tests.support.simulated_tasks import KINDS, SimulatedTask


def fit_simulated(kind: str, closed: int, rng: np.random.Generator) -> AcrossTasks:
    across = fit_across([SimulatedTask.draw(kind, rng).looks() for _ in range(closed)])
    assert across is not None
    return across


def measure_coverage(
    kind: str, closed: int, times: int, new: int, at: tuple[int, ...] = (3, 18, 60)
) -> tuple[float, float]:
    """Share of true accuracies in the interval, and its width against that from the task's own labels."""
    rng, held, width, own = np.random.default_rng(0), [], [], []
    for _ in range(times):
        across = fit_simulated(kind, closed, rng)
        for _ in range(new):
            task = SimulatedTask.draw(kind, rng)
            for n in at:
                found = across.estimate(task.look(n))
                held.append(found.low <= task.accuracy[n] <= found.high)
                low, high = confidence_sequence(int(task.right[:n].sum()), n)
                width.append(found.high - found.low)
                own.append(high - low)
    return float(np.mean(held)), float(np.sum(width) / np.sum(own))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("closed", "times", "new"), [(20, 30, 5), (50, 15, 10), (200, 4, 30)])
def test_interval_holds_the_true_accuracy_of_nine_in_ten_new_tasks(
    kind: str, closed: int, times: int, new: int
) -> None:
    """With few past tasks, more than nine in ten."""
    held, width = measure_coverage(kind, closed, times, new)
    assert 0.87 <= held <= 0.98
    assert width < 0.6


@pytest.mark.medium
@pytest.mark.parametrize("closed", [25, 100])
def test_interval_holds_where_hardly_any_later_label_is_wrong(closed: int) -> None:
    """Most past tasks show no error at all among their 3 to 12 later labels, yet true accuracies differ."""
    rng, held, low = np.random.default_rng(0), [], []
    for _ in range(500 // closed):
        across = fit_across([SimulatedTask.draw("nearly perfect", rng, later=(3, 12)).looks() for _ in range(closed)])
        assert across is not None
        for _ in range(closed // 5):
            task = SimulatedTask.draw("nearly perfect", rng)
            found = across.estimate(task.look(27))
            held.append(found.low <= task.accuracy[27] <= found.high)
            low.append(found.low)
    assert np.mean(held) >= 0.87
    assert np.mean(low) >= 0.9


@pytest.mark.medium
def test_interval_of_a_mean_squared_error_holds_it() -> None:
    rng, held = np.random.default_rng(1), []

    def draw() -> tuple[Look, float]:
        truth = math.exp(rng.normal(-2, 1))
        seen, later = (truth * rng.chisquare(k) / k for k in (12, 40))
        return Look(12, seen, 12, later=later, later_count=40), truth

    for _ in range(40):
        across = fit_across([[draw()[0]] for _ in range(30)], "error")
        assert across is not None
        for _ in range(15):
            look, truth = draw()
            found = across.estimate(look)
            held.append(found.low <= truth <= found.high)
    assert 0.86 <= np.mean(held) <= 0.95


def test_outcome_of_the_look_itself_is_not_used() -> None:
    rng = np.random.default_rng(0)
    across, look = fit_simulated("power law", 20, rng), SimulatedTask.draw("power law", rng).look(12)
    assert across.estimate(look) == across.estimate(replace(look, later=0.0, later_count=1))


def test_what_is_seen_moves_the_estimate_and_less_makes_it_wider() -> None:
    across = fit_simulated("saturating", 60, np.random.default_rng(0))
    bad, good = (across.estimate(Look(18, p, 9, p, p)) for p in (0.6, 0.95))
    assert bad.high < good.value
    assert bad.value < good.low
    full, blind = across.estimate(Look(18, 0.8, 9, 0.8, 0.8)), across.estimate(Look(18))
    assert blind.high - blind.low > full.high - full.low


def test_each_number_of_labels_is_estimated_from_looks_near_it() -> None:
    """Past tasks were bad with few labels and good with many; nothing else was seen."""
    rng = np.random.default_rng(0)

    def look(n: int) -> Look:
        return Look(n, later=rng.binomial(50, 0.55 if n < 10 else 0.95) / 50, later_count=50)

    across = fit_across([[look(n) for n in (1, 3, 40, 60)] for _ in range(40)])
    assert across is not None
    for n in (1, 3):
        assert across.estimate(Look(n)).high < 0.7
    for n in (40, 60):
        assert across.estimate(Look(n)).low > 0.85


def test_a_class_without_a_label_is_held_against_a_task() -> None:
    """Everything else that is seen of the task is perfect, as it is where all labels are of one class."""
    rng = np.random.default_rng(0)

    def look(covered: float) -> Look:
        later = rng.binomial(40, 0.97 if covered == 1 else 0.5) / 40
        return Look(5, 1.0, 5, 1.0, 0.95, covered, later=later, later_count=40)

    across = fit_across([[look(0.5 if task % 8 == 0 else 1.0)] for task in range(60)])
    assert across is not None
    one, both = (across.estimate(Look(5, 1.0, 5, 1.0, 0.95, covered)) for covered in (0.5, 1.0))
    assert one.low <= 0.5 <= one.high < 0.9 < both.low


@pytest.mark.medium
@pytest.mark.parametrize("kind", ["nearly perfect", "saturating"])
def test_labels_beyond_those_of_past_tasks_make_the_lower_end_better_and_keep_it_true(kind: str) -> None:
    """Past tasks had 30 labels, new ones go on to 120."""
    rng, held, gaps = np.random.default_rng(1), [], []

    def look(task: SimulatedTask, n: int, bought: int | None = None) -> Look:
        return replace(task.look(n, bought), progressive=float(task.right[:n].mean()), progressive_count=n)

    for _ in range(20):
        past = [SimulatedTask.draw(kind, rng) for _ in range(25)]
        across = fit_across([[look(task, n, 30) for n in (1, 2, 3, 5, 8, 12, 18, 27)] for task in past])
        assert across is not None
        assert across.most_labels == 18
        for _ in range(10):
            task = SimulatedTask.draw(kind, rng)
            truth, now = task.accuracy[120], look(task, 120)
            found, without = across.estimate(now, earlier=look(task, 18)), across.estimate(now)
            held.append(found.low <= truth <= found.high)
            gaps.append((truth - found.low, truth - without.low))
    assert np.mean(held) >= 0.9 - 2 * math.sqrt(0.9 * 0.1 / len(held))
    gap, gap_without = np.mean(gaps, axis=0)
    assert gap < 0.7 * gap_without


def test_fewer_than_twenty_usable_tasks_give_no_estimate() -> None:
    rng = np.random.default_rng(0)
    tasks = [SimulatedTask.draw("power law", rng).looks() for _ in range(20)]
    assert fit_across(tasks) is not None
    assert fit_across(tasks[:19]) is None
    few = [replace(look, later_count=9) for look in tasks[0]]
    assert fit_across([few, *tasks[1:]]) is not None
    assert fit_across([few, *tasks[1:]], "error") is None
    assert fit_across([[replace(look, later_count=0) for look in few], *tasks[1:]]) is None
    assert fit_across([[], *tasks[1:]]) is None


def test_far_from_any_look_everything_is_possible() -> None:
    looks = [Look(100, 0.9, 50, later=0.9, later_count=40)]
    across = fit_across([looks] * 30)
    assert across is not None
    found = across.estimate(Look(0))
    assert (found.low, found.high) == (0, 1)
    there = across.estimate(Look(200, 0.9, 200))
    assert across.estimate(Look(200, 0.9, 200), earlier=Look(0)) == there  # nothing is known about a look at 0 labels


def test_looks_of_one_task_count_as_one_task() -> None:
    rng = np.random.default_rng(0)
    looks = [Look(30, later=rng.binomial(40, 0.9) / 40, later_count=40) for _ in range(30)]
    once, often = fit_across([[look] for look in looks]), fit_across([[look] * 10 for look in looks])
    assert once is not None
    assert often is not None
    one, other = once.estimate(Look(30)), often.estimate(Look(30))
    assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=0.006)


def test_recent_tasks_count_more() -> None:
    """The learner went on to learn: tasks of long ago were much worse."""
    rng = np.random.default_rng(0)
    accuracies = [0.6] * 300 + [0.9] * 300
    across = fit_across([[Look(10, later=rng.binomial(50, a) / 50, later_count=50)] for a in accuracies])
    assert across is not None
    assert across.estimate(Look(10)).value > 0.86


def test_beyond_the_labels_of_past_tasks_the_trend_is_followed_but_not_far() -> None:
    rng = np.random.default_rng(0)

    def look(n: int) -> Look:
        return Look(n, later=rng.binomial(60, 0.5 + 0.1 * math.log1p(n)) / 60, later_count=60)

    across = fit_across([[look(n) for n in (0, 1, 3, 5, 8, 12)] for _ in range(100)])
    assert across is not None
    at = [across.estimate(Look(n)) for n in (12, 24, 48, 1000)]
    assert at[0].value == pytest.approx(0.5 + 0.1 * math.log(13), abs=0.03)
    assert at[1].value == pytest.approx(0.5 + 0.1 * math.log(25), abs=0.04)
    assert at[1] == at[2] == at[3]


def test_interval_prints_as_people_write_it() -> None:
    assert str(Interval(0.834, 0.71, 0.916)) == "0.83 [0.71, 0.92]"


REFUSED: list[Case] = [
    (f"level {level}", lambda level=level: SOME.estimate(Look(5), level), ["level", str(level), "between 0 and 1"])
    for level in (0, 1.0, 90, math.nan)
]
SOME = fit_simulated("power law", 20, np.random.default_rng(0))


@parametrized(REFUSED)
def test_refusals(call, words) -> None:
    assert_refused(call, words)
