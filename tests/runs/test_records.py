"""The types of what a run writes: every event comes back from its line, and nothing else is accepted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from anyshot.runs.records import (
    EVENTS,
    SUMMARY,
    Evaluation,
    Event,
    ExperimentRecord,
    Pretraining,
    Score,
    Trial,
    first_problem,
)
from tests.support.toy_runs import EXPERIMENT, toy_event

counts = st.integers(0, 2**53 - 1)
numbers = st.floats(allow_nan=False, allow_infinity=False)
maybe = st.none() | numbers
metrics = st.dictionaries(st.text(max_size=3), numbers, max_size=2)
rates = st.dictionaries(st.text(max_size=3), numbers | st.lists(numbers, max_size=3), max_size=2)
lists = st.none() | st.lists(numbers, max_size=3)
flags = st.booleans()
events = st.one_of(
    st.builds(
        Evaluation,
        position=counts,
        task=st.text(),
        step=counts,
        labels=counts,
        shots=counts,
        loss=numbers,
        accuracy=maybe,
        mastered=flags,
        ended=flags,
        total_loss=numbers,
        total_labels=counts,
        train=metrics,
        rates=rates,
    ),
    st.builds(Pretraining, train=metrics),
    st.builds(
        Trial,
        step=counts,
        accuracy=lists,
        loss=lists,
        score=maybe,
        better=flags,
        ended=flags,
        train=metrics,
        rates=rates,
    ),
    st.builds(
        Score,
        shots=counts,
        loss=numbers,
        loss_error=numbers,
        accuracy=maybe,
        accuracy_error=maybe,
        episodes=st.integers(1, 2**53 - 1),
    ),
)


@given(event=events)
def test_an_event_comes_back_from_its_line(event: Event) -> None:
    line = json.dumps(event.to_json(), allow_nan=False)
    again = EVENTS.validate_python(json.loads(line))
    assert again == event
    assert json.dumps(again.to_json()) == line


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"kind": "lunch"}, "lunch"),
        ({"kind": None}, "kind"),
        ({"loss": "0.5"}, "loss"),
        ({"loss": float("nan")}, "loss"),
        ({"loss": None}, "loss"),
        ({"labels": -1}, "labels"),
        ({"labels": 1.0}, "labels"),
        ({"labels": 10**30}, "labels"),
        ({"mastered": 1}, "mastered"),
        ({"train": {"loss": "low"}}, "train.loss"),
        ({"rates": {"beta": [0.1, None]}}, "rates.beta"),
        ({"lunch": 1}, "lunch"),
    ],
)
def test_a_wrong_field_is_named(change: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError) as caught:
        EVENTS.validate_python({**toy_event(0).to_json(), **change})
    assert named in first_problem(caught.value)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"format": 3}, "format"),
        ({"kind": "sometimes"}, "kind"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**32}, "seed"),
        ({"learner": "ftml"}, "learner"),
        ({"protocol": {}}, "test_size"),
        ({"protocol": {"test_size": 1, "rounds": {"a": 1}}}, "protocol.rounds"),
        ({"kind": "offline"}, "test_shots"),
        ({"kind": "offline", "protocol": {"test_shots": [1, "2"]}}, "test_shots"),
    ],
)
def test_a_wrong_part_of_an_experiment_is_named(change: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError) as caught:
        ExperimentRecord.model_validate({**EXPERIMENT.model_dump(), **change})
    assert named in first_problem(caught.value)


@pytest.mark.parametrize("wrong", [5, None, [], {}, {"kind": "online"}, {"kind": "lunch"}])
def test_a_summary_of_other_content_is_refused(wrong: Any) -> None:
    with pytest.raises(ValidationError):
        SUMMARY.validate_python(wrong)


def test_settings_have_dotted_names() -> None:
    record = ExperimentRecord.model_validate(
        {
            **EXPERIMENT.model_dump(),
            "tasks": {
                "name": "pose",
                "fingerprint": "f",
                "origin": {"name": "pose", "seed": 2, "settings": {"size": 8}},
            },
            "learner": {
                "name": "toe",
                "type": {"name": "TOE"},
                "hyperparameters": {"meta_rate": 0.1},
                "network": {"kind": "mlp", "hidden": [4, 4]},
            },
        }
    )
    assert record.settings() == {
        "data.name": "pose",
        "data.seed": 2,
        "data.size": 8,
        "network.kind": "mlp",
        "network.hidden": [4, 4],
        "learner.meta_rate": 0.1,
        "protocol.test_size": 1,
        "protocol.rounds": 9,
    }
