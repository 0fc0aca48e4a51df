"""Settings by dotted names: what is wrong is refused by name, and presets hold the paper's numbers."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshot.runs.make import make_experiment
from anyshot.runs.presets import PRESETS, Preset, preset
from anyshot.runs.settings import change, format_value, list_settings, parse_settings
from tests.support.refusals import Case, assert_refused, parametrized

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
scalars |= st.sampled_from(["auto", "in turn", "mlp"])


@given(value=scalars | st.lists(scalars, max_size=3).map(tuple))
def test_a_value_is_read_as_it_was_written(value: Any) -> None:
    (read,) = parse_settings([f"learner.x={format_value(value)}"]).values()
    if isinstance(value, tuple) and len(value) == 1:  # the setting knows that it takes several
        (value,) = value
    assert read == value
    assert type(read) is type(value)


def refused(**settings: Any) -> Any:
    named = {name.replace("__", "."): value for name, value in settings.items()}
    return lambda: make_experiment("sinusoid", "ftml-vs", settings=named)


WRONG: list[Case] = [
    ("misspelt", refused(protocol__treshold=0.5), ["'protocol.treshold'", "protocol.threshold"]),
    ("old name", refused(numbers__inner_rate=0.5), ["'numbers.inner_rate'", "learner.inner_rate"]),
    ("no such part", refused(lunch=1), ["'lunch'", "data.", "network.", "learner.", "protocol."]),
    ("none near", refused(learner__zzzzzzzz=1), ["'learner.zzzzzzzz'", "inner_steps"]),
    ("of another learner", refused(learner__embedding=1), ["'learner.embedding'"]),
    ("of another network", refused(network__channels=1), ["'network.channels'"]),
    ("the task set", refused(data__name="pose"), ["'data.name'"]),
    ("text for a number", refused(learner__inner_rate="fast"), ["inner_rate", "'fast'"]),
    ("a number out of range", refused(protocol__max_shots=0), ["max_shots", "0"]),
    ("numbers that do not fit", refused(protocol__pretrain_tasks=3), ["pretrain_tasks 3", "pretrain_steps 0"]),
    ("more tasks than there are", refused(protocol__num_tasks=101), ["num_tasks", "101", "100"]),
    ("no such learner", lambda: make_experiment("sinusoid", "ftml-vz"), ["'ftml-vz'", "ftml-vs"]),
    ("no such preset", lambda: make_experiment("sinusoids"), ["'sinusoids'", "sinusoid"]),
    ("classes needed", lambda: make_experiment("sinusoid", "protonet"), ["protonet", "class"]),
    ("NAME=VALUE", lambda: parse_settings(["protocol.threshold"]), ["'protocol.threshold'", "NAME=VALUE"]),
    ("twice", lambda: parse_settings(["a=1", "a=2"]), ["a twice"]),
]


@parametrized(WRONG)
def test_wrong_settings_are_named(call: Any, words: list[str]) -> None:
    assert_refused(call, words)


def test_a_preset_can_only_be_changed_by_names_that_it_has() -> None:
    """The pydantic models of earlier versions took any name in model_copy."""
    assert not hasattr(Preset, "model_copy")
    for kind in (Preset, type(preset("sinusoid").protocol)):
        assert dataclasses.is_dataclass(kind)
    with pytest.raises(TypeError, match="treshold"):
        dataclasses.replace(preset("sinusoid").protocol, treshold=0.5)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", list(PRESETS))
def test_the_settings_that_are_listed_can_be_set(name: str) -> None:
    found = preset(name)
    for learner in (found.default_learner, "toe"):
        listed = list_settings(found, learner)
        settable = {key: value for key, value in listed.items() if key != "data.name"}
        assert list_settings(change(found, learner, settable), learner) == listed
        words = [f"{key}={format_value(value)}" for key, value in settable.items()]
        assert list_settings(change(found, learner, parse_settings(words)), learner) == listed


def test_another_network_begins_with_its_own_defaults() -> None:
    changed = change(preset("rainbow-digits"), "toe", {"network.kind": "mlp", "network.hidden": 12})
    assert changed.network == {"kind": "mlp", "hidden": (12,)}
    assert preset("rainbow-digits").network["kind"] == "conv4"


def test_presets_have_the_papers_numbers() -> None:
    rainbow, mini, pose = (preset(name) for name in ("rainbow-mnist", "contextual-miniimagenet", "pose"))
    for found in (rainbow, mini):
        hyper = list_settings(found, "ftml-vs")
        assert (hyper["learner.inner_steps"], hyper["learner.inner_clip"]) == (5, 10)
        assert [hyper[f"learner.{name}"] for name in ("meta_rate", "meta_clip", "eta")] == [1e-4, 10, 1]
        rules = online(found)
        assert (rules.max_shots, rules.measure, rules.advance) == (20, "accuracy", True)
    assert (online(rainbow).tasks_per_update, rainbow.hyperparameters["inner_rate"]) == (25, 0.1)
    assert (online(rainbow).threshold, online(rainbow).max_steps, arrivals(rainbow)) == (0.85, 2000, (4, 10, 2))
    fixed = preset("rainbow-mnist-fixed")
    assert (online(fixed).advance, online(fixed).max_steps, arrivals(fixed)) == (False, 800, (2, 2, 2))
    assert [online(preset(f"rainbow-mnist-m{shots}")).max_shots for shots in (10, 30)] == [10, 30]
    assert (online(mini).tasks_per_update, mini.hyperparameters["inner_rate"]) == (16, 0.03)
    assert (online(mini).pretrain_tasks, online(mini).threshold, online(mini).max_steps) == (40, 0.75, 1400)
    assert arrivals(mini) == (8, 20, 4)
    fixed = preset("contextual-miniimagenet-fixed")
    assert (online(fixed).advance, online(fixed).max_steps, arrivals(fixed)) == (False, 700, (8, 10, 4))
    assert (online(pose).max_shots, online(pose).max_steps, arrivals(pose)) == (15, 240, (4, 10, 2))
    assert (online(pose).advance, online(pose).measure) == (False, "loss")


def online(found: Preset) -> Any:
    assert found.protocol.kind == "online"
    return found.protocol


def arrivals(found: Preset) -> tuple[int, int, int]:
    rules = online(found)
    return rules.labels_per_arrival, rules.steps_per_arrival, rules.points_per_shot
