"""The estimate from past tasks: coverage of the true accuracy on simulated tasks, and its parts against references."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import Ridge

from anyshot.lifelong import across_tasks
from anyshot.lifelong.across_tasks import (
    MAX_FOLDS,
    AcrossTasks,
    Interval,
    Look,
    fit_across,
    from_scale,
    noise_variance,
    to_scale,
)
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
@pytest.mark.parametrize(("closed", "times", "new"), [(20, 60, 5), (50, 30, 10), (200, 8, 30)])
def test_interval_holds_the_true_accuracy_of_nine_in_ten_new_tasks(
    kind: str, closed: int, times: int, new: int
) -> None:
    held, width = measure_coverage(kind, closed, times, new)
    assert 0.87 <= held <= 0.95
    assert width < 0.6


@pytest.mark.medium
def test_without_the_correction_for_noise_the_interval_holds_nearly_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(across_tasks, "noise_variance", lambda measure, value, count: 0 * value)
    held, _ = measure_coverage("saturating", 50, 10, 10)
    assert held > 0.97


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


def test_fewer_than_twenty_usable_tasks_give_no_estimate() -> None:
    rng = np.random.default_rng(0)
    tasks = [SimulatedTask.draw("power law", rng).looks() for _ in range(20)]
    assert fit_across(tasks) is not None
    assert fit_across(tasks[:19]) is None
    few = [replace(look, later_count=9) for look in tasks[0]]
    assert fit_across([few, *tasks[1:]]) is None
    assert fit_across([[], *tasks[1:]]) is None


def test_far_from_any_look_everything_is_possible() -> None:
    looks = [Look(100, 0.9, 50, later=0.9, later_count=40)]
    across = fit_across([looks] * 30)
    assert across is not None
    found = across.estimate(Look(0))
    assert (found.low, found.high) == (0, 1)


def test_looks_of_one_task_count_as_one_task() -> None:
    """Thirty tasks of ten looks are thirty tasks: for 98 % they are too few."""
    rng = np.random.default_rng(0)
    tasks = [[Look(30, later=rng.binomial(40, 0.9) / 40, later_count=40)] * 10 for _ in range(30)]
    across = fit_across(tasks)
    assert across is not None
    assert across._weigh(30).sum() == pytest.approx(30)
    assert across.estimate(Look(30), 0.96).high < 1
    assert across.estimate(Look(30), 0.98).high == 1


@given(st.integers(0, 1000))
def test_each_fit_is_a_ridge_regression_without_a_fold(seed: int) -> None:
    rng = np.random.default_rng(seed)
    design = np.column_stack([np.ones(50), rng.normal(size=(50, 3))])
    targets, weights, folds = rng.normal(size=50), rng.uniform(0.1, 1, 50), rng.integers(0, MAX_FOLDS, 50)
    found = across_tasks._fit_without_each_fold(design, targets, weights, folds)
    for fold in (0, 7, MAX_FOLDS):
        inside = folds != fold
        ridge = Ridge(alpha=1.0).fit(design[inside, 1:], targets[inside], weights[inside])
        np.testing.assert_allclose(found[fold], [ridge.intercept_, *ridge.coef_], atol=1e-6)


@given(st.floats(0.05, 0.99), st.integers(10, 200))
def test_noise_is_that_of_a_binomial_count(accuracy: float, count: int) -> None:
    right = np.arange(count + 1)
    chance = stats.binom.pmf(right, count, accuracy)
    scaled = to_scale("accuracy", right / count, np.full(count + 1, count))
    mean = chance @ scaled
    variance = chance @ (scaled - mean) ** 2
    found = noise_variance("accuracy", np.array([accuracy]), np.array([count]))
    assert math.sqrt(found[0]) == pytest.approx(math.sqrt(variance), rel=0.3, abs=0.005)
    assert from_scale("accuracy", np.array([mean]))[0] == pytest.approx(accuracy, abs=0.012)


@given(st.floats(0.02, 0.3), st.floats(0.0, 0.2), st.integers(0, 1000))
def test_spread_is_found_under_the_noise(true: float, noise: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    residuals = rng.normal(0, math.hypot(true, noise), 4000)
    found = across_tasks._estimate_spread(residuals, np.full(4000, noise**2), np.ones(4000))
    assert found**2 == pytest.approx(true**2, abs=0.12 * (true**2 + noise**2))


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=60), st.floats(0.05, 0.99))
def test_quantile_of_equal_weights_is_that_of_conformal_prediction(values: list[float], level: float) -> None:
    place = math.ceil(level * (len(values) + 1) - 1e-9)
    expected = sorted(values)[place - 1] if place <= len(values) else math.inf
    assert across_tasks._quantile(np.array(values), np.ones(len(values)), level) == expected


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
