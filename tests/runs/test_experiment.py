"""Experiments: what does not fit is refused before anything runs, and the record holds all that matters."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from anyshot import Experiment, OnlineProtocol, TaskSet, make_learner
from anyshot.errors import DataError, InputError
from anyshot.learners import Learner
from anyshot.networks import NETWORKS
from anyshot.runs.learner_records import describe_learner, learner_from
from anyshot.runs.make import experiment_from
from anyshot.runs.records import ExperimentRecord, LearnerRecord
from tests.support.refusals import Case, assert_refused, parametrized
from tests.support.small_runs import small_offline, small_online

RULES = OnlineProtocol(max_steps=20, max_shots=3, test_size=4, tasks_per_update=2)


def own_tasks(scale: float = 1.0, classes: int = 3, rows: int = 20) -> TaskSet:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, rows, 5)).astype(np.float32) * np.float32(scale)
    return TaskSet.from_arrays([(part, np.arange(rows) % classes) for part in x], test_size=4, name="mine")


def mlp(width: int) -> Callable[[Any, int], Any]:
    return lambda key, outputs: eqx.nn.MLP(5, outputs, width, 1, key=key)


TASKS = own_tasks()


def learner(**parts: Any) -> Learner:
    return make_learner("ftml-vs", TASKS, RULES, **parts)


def nan_tasks() -> TaskSet:
    x = np.ones((8, 2))
    x[3, 1] = np.nan
    return TaskSet.from_arrays([(x, np.arange(8) % 2)], test_size=2)


WRONG: list[Case] = [
    ("tasks", lambda: Experiment(np.ones(3), "toe", RULES), ["tasks", "ndarray"]),  # type: ignore[arg-type]
    ("protocol", lambda: Experiment(TASKS, "toe", {"max_shots": 3}), ["protocol", "max_shots"]),  # type: ignore[arg-type]
    ("learner", lambda: Experiment(TASKS, 5, RULES), ["learner", "5"]),  # type: ignore[arg-type]
    ("learner's name", lambda: Experiment(TASKS, "teo", RULES), ["'teo'", "toe"]),
    ("negative seed", lambda: Experiment(TASKS, "toe", RULES, -1), ["seed", "-1"]),
    ("large seed", lambda: Experiment(TASKS, "toe", RULES, 2**32), ["seed", "4294967296"]),
    ("true seed", lambda: Experiment(TASKS, "toe", RULES, True), ["seed", "True"]),
    ("more tasks", lambda: Experiment(TASKS, "toe", dataclasses.replace(RULES, num_tasks=5)), ["num_tasks", "5", "4"]),
    ("more tests", lambda: Experiment(TASKS, "toe", dataclasses.replace(RULES, test_size=5)), ["test_size", "5", "4"]),
    (
        "other shots",
        lambda: Experiment(TASKS, learner(), dataclasses.replace(RULES, max_shots=4)),
        ["max_shots", "3", "4"],
    ),
    ("other classes", lambda: Experiment(own_tasks(classes=2), learner(), RULES), ["outputs", "3", "2"]),
    ("NaN in x", nan_tasks, ["x"]),
    ("no network", lambda: learner(network=5), ["network", "5"]),
    ("another network", lambda: learner(network="mlpp"), ["'mlpp'", "mlp"]),
    ("network fails", lambda: learner(network=lambda key: 3), ["network"]),
    ("model fails", lambda: learner(network=lambda key, outputs: eqx.nn.MLP(9, outputs, 4, 1, key=key)), ["network"]),
    ("outputs", lambda: learner(network=lambda key, outputs: mlp(4)(key, 2)), ["network", "3 outputs", "(2,)"]),
    ("loss", lambda: learner(loss="mse"), ["loss", "'mse'"]),
    ("optimiser", lambda: learner(optimiser=0.1), ["optimiser", "0.1"]),
    ("hyperparameter", lambda: learner(inner_rat=0.1), ["'inner_rat'", "inner_rate"]),
    ("its value", lambda: learner(inner_rate=-1.0), ["inner_rate", "-1"]),
]


@parametrized(WRONG)
def test_what_does_not_fit_is_refused(call: Any, words: list[str]) -> None:
    assert_refused(call, words)


def absolute(output: Any, label: Any) -> Any:
    return jnp.sum(jnp.abs(output)) + label


def test_the_record_holds_everything_that_the_result_depends_on() -> None:
    makers: dict[str, Callable[[], Experiment]] = {
        "usual": lambda: Experiment(TASKS, "ftml-vs", RULES),
        "seed": lambda: Experiment(TASKS, "ftml-vs", RULES, 1),
        "tasks": lambda: Experiment(own_tasks(1.5), "ftml-vs", RULES),
        "rule": lambda: Experiment(TASKS, "ftml-vs", dataclasses.replace(RULES, threshold=0.5)),
        "method": lambda: Experiment(TASKS, "ftml", RULES),
        "hyperparameter": lambda: Experiment(TASKS, learner(inner_rate=0.2), RULES),
        "network setting": lambda: Experiment(TASKS, learner(network={"kind": "mlp", "hidden": (8,)}), RULES),
        "network": lambda: Experiment(TASKS, learner(network=mlp(8)), RULES),
        "array in a network": lambda: Experiment(TASKS, learner(network=mlp(9)), RULES),
        "loss": lambda: Experiment(TASKS, learner(loss=absolute), RULES),
        "optimiser": lambda: Experiment(TASKS, learner(optimiser=optax.sgd(0.1)), RULES),
        "its rate": lambda: Experiment(TASKS, learner(optimiser=optax.sgd(0.2)), RULES),
    }
    records = {what: make().record for what, make in makers.items()}
    assert len({record.model_dump_json() for record in records.values()}) == len(records)
    for what, make in makers.items():
        assert make().record == records[what]
        content = json.loads(json.dumps(records[what].model_dump(mode="json"), allow_nan=False))
        assert ExperimentRecord.model_validate(content) == records[what]


@pytest.mark.parametrize("make", [small_online, small_offline])
def test_an_experiment_of_names_can_be_made_from_its_record(make: Callable[[], Experiment]) -> None:
    record = make().record
    assert experiment_from(record).record == record


@pytest.mark.parametrize("name", ["toe", "ftml", "ftml-vl", "ftml-vs+meta-sgd", "a-gem", "mann", "protonet"])
def test_a_learner_can_be_made_from_its_record(name: str) -> None:
    record = describe_learner(make_learner(name, TASKS, RULES))
    assert describe_learner(learner_from(record)) == record


@pytest.mark.parametrize(
    ("part", "parts"),
    [("network", {"network": mlp(4)}), ("loss", {"loss": absolute}), ("optimiser", {"optimiser": optax.sgd(0.1)})],
)
def test_what_a_record_cannot_hold_is_named(part: str, parts: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=part):
        learner_from(describe_learner(learner(**parts)))


class Lazy(Learner):
    """A learner that is no `NetworkLearner`."""

    scale: float = 1.0

    @property
    def wants(self) -> Any:
        return frozenset({"batch"})

    def init(self, key: Any) -> Any:
        return jnp.zeros(3)

    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return state + self.scale, {"loss": jnp.zeros(())}

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return jnp.broadcast_to(state, (len(query), 3))


def test_any_learner_has_a_record_with_its_fields_and_its_source() -> None:
    records = [Experiment(TASKS, Lazy(scale), RULES).record.learner for scale in (1.0, 2.0)]
    assert [record.fields for record in records] == [{"scale": 1.0}, {"scale": 2.0}]
    assert all("sha256" in record.type and record.name == "lazy" for record in records)
    with pytest.raises(InputError, match="class"):
        learner_from(records[0])


def test_own_tasks_and_other_data_are_refused_when_only_a_record_is_there() -> None:
    with pytest.raises(InputError, match="mine"):
        experiment_from(Experiment(TASKS, "toe", RULES).record)
    record = small_online().record
    other = record.model_copy(update={"tasks": record.tasks.model_copy(update={"fingerprint": "0" * 64})})
    with pytest.raises(DataError, match="fingerprint"):
        experiment_from(other)


@pytest.fixture
def registered() -> Iterator[list[int]]:
    """A network of one's own, registered by name, whose width is what it closes over."""
    width = [4]

    def make(shape: tuple[int, ...], outputs: int, *, key: Any, depth: int = 1) -> Any:
        return eqx.nn.MLP(shape[0], outputs, width[0], depth, key=key)

    NETWORKS.register("mine", make)
    yield width
    del NETWORKS._entries["mine"]


def test_a_registered_network_of_ones_own_is_known_by_its_source_too(registered: list[int]) -> None:
    record = describe_learner(learner(network={"kind": "mine", "depth": 2}))
    assert record.network is not None
    assert (record.network["kind"], record.network["depth"]) == ("mine", 2)
    assert learner_from(record).name == "ftml-vs"
    registered[0] = 5
    with pytest.raises(InputError, match="network mine has changed"):
        learner_from(record)


def test_a_learner_of_another_kind_under_the_same_name_is_noticed() -> None:
    record = describe_learner(learner())
    other = LearnerRecord.model_validate(
        record.model_dump() | {"fields": {"rule": {"name": "anyshot.rates.constant.Constant"}}}
    )
    with pytest.raises(InputError, match="another learner"):
        learner_from(other)
