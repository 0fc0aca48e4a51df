"""Rules that make no sense are refused, with a sentence that names the rule and its value."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshot.offline import OfflineProtocol
from tests.support.refusals import assert_refused

FIELDS = {field.name: field.default for field in dataclasses.fields(OfflineProtocol)}
MAY_BE_NONE = {name for name, default in FIELDS.items() if default is None}
MAY_BE_ZERO = {"min_shots", "validation_tasks", "order"}
WHOLE = set(FIELDS) - {"test_shots", "standard_error", "zero_shot_share"}
NO_NUMBERS = st.sampled_from([True, False, "5", 1.5, 2.0, float("nan"), [3], (1,)])


def test_the_fields_are_those_that_are_tried_here() -> None:
    assert {"ways", "order", "train_tasks", "test_tasks", "zero_shot_share"} == MAY_BE_NONE
    assert len(WHOLE) == 15


@given(st.sampled_from(sorted(WHOLE)), NO_NUMBERS | st.integers(max_value=-1) | st.integers(min_value=10**10))
def test_what_is_no_whole_number_or_out_of_range_is_refused(name: str, value: Any) -> None:
    assert_refused(lambda: OfflineProtocol(**{name: value}), [name, repr(value)])


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        *(({name: 0}, name) for name in sorted(WHOLE - MAY_BE_ZERO)),
        *(({name: None}, name) for name in sorted(WHOLE - MAY_BE_NONE)),
        ({"ways": 1}, "ways"),
        ({"steps": 45}, "steps_per_trial"),  # 500 is the default
        ({"steps_per_trial": 10**6}, "steps_per_trial"),
        ({"min_shots": 21}, "max_shots"),  # 20 is the default
        ({"max_shots": 10**6}, "max_shots"),
        *(({"test_shots": wrong}, "test_shots") for wrong in ((), [0, 1], 5, None, "01", (1, 0), (1, 1), (0, 1.5))),
        *(({"standard_error": wrong}, "standard_error") for wrong in (0.0, -1.0, float("nan"), float("inf"))),
        *(({"standard_error": wrong}, "standard_error") for wrong in (True, "0.3", None)),
        *(({"zero_shot_share": wrong}, "zero_shot_share") for wrong in (True, "0.3", -0.1, 1.0, 1.1, float("nan"))),
        ({"order": "all"}, "order"),
        ({"validation_tasks": "seed"}, "validation_tasks"),
    ],
    ids=str,
)
def test_more_nonsense_is_refused(changes: dict[str, Any], name: str) -> None:
    (value,) = changes.values()
    shown = "1.5" if value == (0, 1.5) else repr(value)  # the number that is wrong
    assert_refused(lambda: OfflineProtocol(**changes), [name, shown])


def test_a_share_of_zero_shots_needs_zero_shots() -> None:
    assert_refused(lambda: OfflineProtocol(zero_shot_share=0.5, min_shots=1), ["zero_shot_share", "min_shots", "1"])


def test_a_shot_of_several_classes_is_a_datapoint_of_each() -> None:
    assert OfflineProtocol(max_shots=5).most_shots == 5
    assert OfflineProtocol(max_shots=5, ways=3).most_shots == 15
