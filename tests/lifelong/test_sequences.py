"""The confidence sequence against a plain grid search, its coverage at all looks, and its shape."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaln

from anyshot.lifelong.sequences import TILTS, confidence_sequence, log_evidence
from tests.support.refusals import Case, assert_refused, parametrized

levels = st.sampled_from([0.5, 0.8, 0.9, 0.99])
totals = st.integers(1, 300).flatmap(lambda count: st.tuples(st.floats(0, count), st.just(count)))


def search_grid(total: float, count: int, level: float) -> tuple[float, float]:
    """The first and last of many values of m at which the mixture, term by term, is below the threshold."""
    found = []
    for m in np.linspace(0, 1, 2001):
        terms = [math.exp(tilt * total - count * math.log(1 - m + m * math.exp(tilt))) for tilt in TILTS]
        if sum(terms) / len(terms) < 1 / (1 - level):
            found.append(m)
    return found[0], found[-1]


@pytest.mark.parametrize(
    ("total", "count", "level"), [(20, 20, 0.9), (0, 7, 0.9), (3.3, 9, 0.8), (14, 40, 0.95), (1, 1, 0.5)]
)
def test_ends_are_those_of_a_grid_search(total: float, count: int, level: float) -> None:
    assert confidence_sequence(total, count, level) == pytest.approx(search_grid(total, count, level), abs=5.1e-4)


@given(totals, levels)
def test_holds_the_observed_mean_and_is_monotone(total_count: tuple[float, int], level: float) -> None:
    total, count = total_count
    low, high = confidence_sequence(total, count, level)
    assert 0 <= low <= total / count <= high <= 1
    assert low < high
    more = min(total + 1, float(count))
    assert low <= confidence_sequence(more, count, level)[0] + 1e-9
    assert high <= confidence_sequence(more, count, level)[1] + 1e-9
    mirrored = confidence_sequence(count - total, count, level)
    assert (1 - high, 1 - low) == pytest.approx(mirrored, abs=1e-6)
    wider = confidence_sequence(total, count, (1 + level) / 2)
    assert wider[0] <= low
    assert wider[1] >= high


@given(st.integers(0, 60), st.integers(0, 60))
def test_evidence_against_a_coin_is_the_beta_binomial_one(right: int, wrong: int) -> None:
    """At m = 1/2 the mixture over a logistic λ is that over a uniform alternative; the grid changes it a little."""
    exact = betaln(right + 1, wrong + 1) + (right + wrong) * math.log(2)
    assert log_evidence(0.5, right, right + wrong) == pytest.approx(exact, abs=0.1)


def test_width_for_known_counts() -> None:
    assert confidence_sequence(0, 0) == (0, 1)
    assert 0.77 < confidence_sequence(20, 20)[0] < 0.83
    assert confidence_sequence(30, 30)[0] < 0.9 < confidence_sequence(45, 45)[0]
    low, high = confidence_sequence(900_000, 1_000_000)
    assert 0.895 < low < 0.9 < high < 0.905


def draw_chances(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Chances to be right: 2000 sequences of 500 labels."""
    t = np.arange(500)
    if kind == "learning":
        return 0.97 - 0.6 * (1 + t / rng.uniform(1, 40, (2000, 1))) ** -0.7
    if kind == "fair coin":
        return np.full((2000, 500), 0.5)
    return np.where(t % 2 == 0, 0.95, 0.2) * np.ones((2000, 1))


@pytest.mark.medium
@pytest.mark.parametrize("kind", ["learning", "fair coin", "to and fro"])
def test_mean_chance_is_held_at_all_looks_while_it_drifts(kind: str) -> None:
    rng = np.random.default_rng(0)
    chances = draw_chances(kind, rng)
    counts = np.arange(1, 501)
    totals, means = np.cumsum(rng.random(chances.shape) < chances, axis=1), np.cumsum(chances, axis=1) / counts
    evidence = np.empty(chances.shape)
    for look, count in enumerate(counts):
        exponents = np.outer(totals[:, look], TILTS) - count * np.log1p(np.outer(means[:, look], np.expm1(TILTS)))
        evidence[:, look] = np.exp(exponents).mean(axis=1)
    for line, look in zip(rng.integers(0, 2000, 30), rng.integers(0, 500, 30), strict=True):
        low, high = confidence_sequence(int(totals[line, look]), int(counts[look]))
        assert (low <= means[line, look] <= high) == (evidence[line, look] < 10)
    largest = evidence.max(axis=1)
    for level in (0.5, 0.9, 0.98):
        luck = 3 * math.sqrt(level * (1 - level) / len(largest))  # for a coin the level is met almost exactly
        assert np.mean(largest < 1 / (1 - level)) >= level - luck
    assert np.mean(largest < 2) < 0.9  # so the simulation can tell a threshold that is too low


REFUSED: list[Case] = [
    ("level 1", lambda: confidence_sequence(1, 2, 1.0), ["level", "1.0"]),
    ("level 90", lambda: confidence_sequence(1, 2, 90), ["level", "90", "between 0 and 1"]),
    ("negative count", lambda: confidence_sequence(0, -1), ["count", "-1"]),
    ("more right than labels", lambda: confidence_sequence(3, 2), ["total", "3", "count = 2"]),
    ("NaN", lambda: confidence_sequence(math.nan, 2), ["total", "nan"]),
]


@parametrized(REFUSED)
def test_refusals(call, words) -> None:
    assert_refused(call, words)
