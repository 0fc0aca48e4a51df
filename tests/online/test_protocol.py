"""Rules that make no sense are refused, with a sentence that names the rule and its value."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshot.online import OnlineProtocol
from tests.support.refusals import as_a_user_runs_it, assert_refused

FIELDS = {field.name: field.default for field in dataclasses.fields(OnlineProtocol)}
SWITCHES = {name for name, default in FIELDS.items() if isinstance(default, bool)}
MAY_BE_ZERO = {"pretrain_tasks", "pretrain_steps"}
WHOLE = set(FIELDS) - SWITCHES - {"threshold", "measure"}
POSITIVE = WHOLE - MAY_BE_ZERO
NO_NUMBERS = st.sampled_from([True, False, "5", 1.5, 2.0, float("nan"), [3], (1,)])


def test_the_fields_are_those_that_are_tried_here() -> None:
    assert {"advance", "overlap", "borrow", "fresh_test", "shuffle_tasks"} == SWITCHES
    assert len(WHOLE) == 14


@given(st.sampled_from(sorted(WHOLE)), NO_NUMBERS | st.integers(max_value=-1) | st.integers(min_value=10**10))
def test_what_is_no_whole_number_or_out_of_range_is_refused(name: str, value: Any) -> None:
    assert_refused(lambda: OnlineProtocol(**{name: value}), [name, repr(value)])


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        *(({name: 0}, name) for name in sorted(POSITIVE)),
        *(({name: None}, name) for name in sorted(WHOLE - {"num_tasks"})),
        *(({name: wrong}, name) for name in sorted(SWITCHES) for wrong in ("no", 1, None)),
        *(({"threshold": wrong}, "threshold") for wrong in (float("nan"), float("inf"), 0.0, -0.5, 1.5)),
        *(({"threshold": wrong}, "threshold") for wrong in ("high", None, True)),
        *(({"measure": wrong}, "measure") for wrong in ("precision", None, ["loss"])),
        ({"num_tasks": 3, "pretrain_tasks": 3, "pretrain_steps": 10}, "num_tasks"),
        ({"pretrain_tasks": 3}, "pretrain_steps"),
        ({"pretrain_steps": 3}, "pretrain_tasks"),
        ({"steps_per_arrival": 10**6}, "steps_per_arrival"),
        ({"steps_per_arrival": 10_001}, "steps_per_arrival"),
        ({"updates_per_step": 1001}, "updates_per_step"),  # 10 steps of so many
        ({"max_shots": 10**6}, "max_shots"),
        ({"max_steps": 99_999_999_999}, "max_steps"),
    ],
    ids=str,
)
def test_more_nonsense_is_refused(changes: dict[str, Any], name: str) -> None:
    assert_refused(lambda: OnlineProtocol(**changes), [name, str(next(iter(changes.values())))])


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_threshold_for_the_loss_can_be_any_number(threshold: float) -> None:
    assert OnlineProtocol(measure="loss", threshold=threshold).threshold == threshold


@given(st.sampled_from(sorted(POSITIVE)), st.integers(1, 1000))
def test_sensible_numbers_are_accepted(name: str, value: int) -> None:
    with as_a_user_runs_it():
        assert getattr(OnlineProtocol(**{name: value}), name) == value


@given(st.integers(1, 100), st.integers(1, 1000))
def test_rounds_are_arrivals_until_the_steps_are_used_up(steps_per_arrival: int, max_steps: int) -> None:
    rounds = OnlineProtocol(steps_per_arrival=steps_per_arrival, max_steps=max_steps).rounds
    assert (rounds - 1) * steps_per_arrival < max_steps <= rounds * steps_per_arrival
