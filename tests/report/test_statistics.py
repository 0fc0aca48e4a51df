"""Means, intervals and p values against SciPy, and against what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from anyshot.errors import InputError
from anyshot.report.statistics import Difference, Spread, holm

numbers = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=9)


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=2, max_size=9))
def test_a_difference_is_what_the_paired_test_of_scipy_gives(pairs: list[tuple[float, float]]) -> None:
    ours, theirs = np.array(pairs).T
    found = Difference.of(list(ours - theirs))
    assert found.n == len(pairs)
    if np.ptp(ours - theirs) <= 1e-9:
        return
    expected = stats.ttest_rel(ours, theirs)
    low, high = expected.confidence_interval(0.95)
    assert found.mean == pytest.approx(np.mean(ours) - np.mean(theirs), abs=1e-9)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9, abs=1e-9)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-6)
    assert found.p is not None
    if abs(found.p - 0.05) > 1e-9:
        assert found.excludes_zero == (found.p < 0.05)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    draw = np.random.default_rng(0)
    found = [Difference.of(list(draw.normal(2.0, 5.0, 3))) for _ in range(4000)]
    inside = [one.low <= 2.0 <= one.high for one in found if one.low is not None and one.high is not None]
    assert len(inside) == 4000
    assert np.mean(inside) == pytest.approx(0.95, abs=0.012)


def test_one_value_has_no_spread_and_equal_ones_have_none() -> None:
    assert Spread.of([2.0]) == Spread(2.0, None, 1)
    assert Difference.of([2.0]) == Difference(2.0, None, None, None, 1)
    assert not Difference.of([2.0]).excludes_zero
    assert Difference.of([2.0, 2.0]) == Difference(2.0, 2.0, 2.0, 0.0, 2)
    assert Difference.of([2.0, 2.0]).excludes_zero
    assert Difference.of([0.0, 0.0]) == Difference(0.0, 0.0, 0.0, 1.0, 2)
    assert not Difference.of([0.0, 0.0]).excludes_zero


@given(numbers)
def test_a_spread_is_what_numpy_gives(values: list[float]) -> None:
    assert Spread.of(values) == Spread(np.mean(values), np.std(values, ddof=1), len(values))


@pytest.mark.parametrize("summarise", [Spread.of, Difference.of])
def test_no_values_are_refused(summarise: type) -> None:
    with pytest.raises(InputError, match="values"):
        summarise([])


@given(st.lists(st.floats(0, 1), max_size=8), st.randoms(use_true_random=False))
def test_holm_is_the_step_down_of_bonferroni(p_values: list[float], shuffle: object) -> None:
    adjusted = holm(p_values)
    rejected = {place for place, p in enumerate(adjusted) if p <= 0.05}
    # Holm's own words: reject the smallest while it is at most 0.05 / (number left).
    left = sorted(range(len(p_values)), key=lambda place: p_values[place])
    expected = set()
    while left and len(left) * p_values[left[0]] <= 0.05:
        expected.add(left.pop(0))
    assert rejected == expected
    assert all(raw <= one <= 1 for raw, one in zip(p_values, adjusted, strict=True))
