"""Names of experiments, and commands that run exactly the experiment they stand beside."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyshot.adaptation import squared_error
from anyshot.learners.catalogue import LEARNERS
from anyshot.learners.ftml import FTML
from anyshot.networks import NETWORKS
from anyshot.rates import Constant
from anyshot.runs.experiment import Experiment, make_learner
from anyshot.runs.make import make_experiment
from anyshot.runs.naming import command, nearest_preset, title
from anyshot.runs.presets import PRESETS, preset
from anyshot.runs.records import ExperimentRecord, LearnerRecord
from anyshot.runs.settings import change, list_settings, parse_settings
from anyshot.tasks import TaskSet
from tests.support.small_runs import small_offline, small_online

pytestmark = pytest.mark.medium


def run_words(words: list[str]) -> ExperimentRecord:
    """The experiment that a command makes."""
    assert words[:2] == ["anyshot", "run"]
    assert words[3:8:2] == ["--learner", "--seed", "--out"]
    changes = parse_settings(words[10:]) if words[9:10] == ["--set"] else {}
    return make_experiment(words[2], words[4], int(words[6]), changes).record


rates = st.floats(1e-8, 1.0)
shared = {
    "learner.meta_rate": rates,
    "learner.inner_clip": st.none() | rates,
    "learner.batching": st.sampled_from(["auto", "in turn", "together"]),
    "learner.second_order": st.booleans(),
    "network.hidden": st.lists(st.integers(1, 9), max_size=3).map(tuple),
    "data.num_tasks": st.integers(90, 110),
    "data.seed": st.integers(0, 2),
}
online = {
    "protocol.threshold": st.integers(1, 3) | st.floats(0.01, 2.0),
    "protocol.num_tasks": st.none() | st.integers(2, 9),
    "protocol.shuffle_tasks": st.booleans(),
}
offline = {
    "protocol.test_shots": st.sampled_from([(1,), (0, 3), (0, 1, 5, 10)]),
    "protocol.order": st.none() | st.just(3),
}


@settings(max_examples=25)
@given(
    case=st.one_of(
        st.tuples(
            st.just("sinusoid"),
            st.sampled_from(["ftml-vs", "ftml"]),
            st.fixed_dictionaries({}, optional=shared | online),
        ),
        st.tuples(
            st.just("sinusoid-offline"), st.just("maml-vs"), st.fixed_dictionaries({}, optional=shared | offline)
        ),
    ),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_command_makes_the_very_experiment(case: tuple[str, str, dict[str, Any]], seed: int) -> None:
    name, learner, changes = case
    record = make_experiment(name, learner, seed, changes).record
    printed = command(record, "a folder")
    assert printed is not None
    words = shlex.split(printed)
    assert words[2] == name
    assert words[8] == "a folder"
    assert run_words(words) == record


def test_a_network_of_another_kind_is_named_with_the_settings_that_it_needs() -> None:
    for kind, channels in (("conv4", 16), ("conv4", 32), ("mlp", None)):
        changes: dict[str, Any] = {"network.kind": kind, **({"network.channels": channels} if channels else {})}
        record = make_experiment("rainbow-digits", "toe", settings=changes).record
        printed = command(record, "x")
        assert printed is not None
        assert run_words(shlex.split(printed)) == record


def test_a_setting_that_two_kinds_of_network_share_is_named_if_it_is_not_the_default_of_the_new_one() -> None:
    record = make_experiment("rainbow-digits", "toe").record
    for channels in (16, 32):  # those of the preset, and the default of "pose"
        network = {"kind": "pose", "channels": channels, "stride": 2}
        other = LearnerRecord.model_validate(record.learner.model_dump() | {"network": network})
        found = nearest_preset(record.model_copy(update={"learner": other}))
        assert found is not None
        name, changes = found
        settings = list_settings(change(preset(name), "toe", changes), "toe")
        assert {key: settings[f"network.{key}"] for key in network} == network


def test_a_setting_that_an_older_record_lacks_has_its_default_in_the_command() -> None:
    record = make_experiment("sinusoid", "ftml-vs").record.model_dump()
    del record["learner"]["hyperparameters"]["inner_rate"]  # 0.1 by default, 0.01 in the preset
    printed = command(ExperimentRecord.model_validate(record), "x")
    assert printed is not None
    assert parse_settings(shlex.split(printed)[10:]) == {"learner.inner_rate": 0.1}


class OwnRate(Constant):
    """A rate rule of one's own."""


@pytest.fixture
def own_names() -> Iterator[None]:
    """A learner and a network of one's own, registered in this process."""
    LEARNERS.register("own-rate", OwnRate)
    NETWORKS.register("own-net", lambda shape, outputs, *, key: eqx.nn.MLP(shape[0], outputs, 4, 1, key=key))
    yield
    del LEARNERS._entries["own-rate"]
    del NETWORKS._entries["own-net"]


def test_what_only_python_can_make_has_no_command(own_names: None) -> None:
    usual = small_online()
    tasks, rules = usual.tasks, usual.protocol

    def made(**parts: Any) -> Experiment:
        name = parts.pop("name", "ftml-vs")
        return dataclasses.replace(usual, learner=make_learner(name, tasks, rules, **parts))

    own = {
        "tasks": dataclasses.replace(usual, tasks=tasks.select(range(6))),
        "network": made(network=lambda key, outputs: eqx.nn.MLP(1, outputs, 4, 1, key=key)),
        "registered network": made(network="own-net"),
        "loss": made(loss=lambda output, label: jnp.mean(jnp.abs(output - label))),
        "optimiser": made(optimiser=optax.sgd(0.1)),
        "rate": made(name="own-rate"),
    }
    for what, experiment in own.items():
        assert command(experiment.record, "x") is None, what
        assert "sinusoid" in title(experiment.record), what
    assert command(made().record, "x") is not None


def test_a_known_name_over_other_parts_has_no_command() -> None:
    usual = small_online()
    spec = usual.learner.spec  # type: ignore[attr-defined]
    disguised = FTML(spec, usual.learner.hyper, Constant)  # type: ignore[attr-defined]
    assert disguised.name == "ftml-vs"
    assert command(dataclasses.replace(usual, learner=disguised).record, "x") is None


def test_a_loss_that_is_not_the_usual_one_has_no_command() -> None:
    record = make_experiment("rainbow-digits", "toe").record
    assert command(record, "x") is not None
    learner = record.learner.model_dump() | {"loss": {"name": f"{squared_error.__module__}.squared_error"}}
    changed = record.model_copy(update={"learner": LearnerRecord.model_validate(learner)})
    assert command(changed, "x") is None


def test_a_title_names_the_preset_and_what_is_changed_in_it() -> None:
    assert title(make_experiment("sinusoid", "toe", settings={"learner.meta_rate": 0.5}).record) == "sinusoid"
    assert "protocol.max_shots 5" in title(small_online().record)
    assert title(small_offline().record).startswith("sinusoid-offline with")
    own = TaskSet.from_arrays([(np.ones((8, 2)), np.arange(8) % 2)] * 3, name="mine")
    rules = dataclasses.replace(preset("rainbow-digits").protocol, test_size=2, max_shots=3)  # type: ignore[call-arg]
    assert title(Experiment(own, "toe", rules).record) == "mine"
    assert {title(make_experiment(name, "toe").record) for name in ("sinusoid", "rainbow-digits")} <= set(PRESETS)
