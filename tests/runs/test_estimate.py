"""The estimate of what a run needs, against what was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import pytest

from anyshot import Experiment, load_tasks, make_experiment
from anyshot.adaptation import objective
from anyshot.learners import LEARNERS, Learner
from anyshot.online import OnlineProtocol
from anyshot.runs.estimate import CPU, GPU, estimate
from anyshot.runs.presets import PRESETS, preset

pytestmark = pytest.mark.medium


def test_the_estimate_is_near_what_was_measured() -> None:
    """Milliseconds a step on two idle cores, and megabytes by XLA's own account, of rainbow-digits."""
    meta, plain = (estimate(make_experiment("rainbow-digits", learner)) for learner in ("ftml-vs", "toe"))
    assert meta.steps == plain.steps == 56 * 150
    assert meta.task_set_bytes == pytest.approx(14.7e6, rel=0.02)
    assert meta.seconds_per_step[CPU] == pytest.approx(5.5e-3, rel=1 / 3)
    assert plain.seconds_per_step[CPU] == pytest.approx(1.1e-3, rel=1 / 3)
    assert meta.working_bytes[CPU] == pytest.approx(6.0e6, rel=1 / 3)


def test_offline_runs_are_estimated_too() -> None:
    mann, maml = (estimate(make_experiment("rainbow-digits-offline", learner)) for learner in ("mann", "maml"))
    assert maml.steps == mann.steps == 1000
    assert 13e-3 / 3 < maml.seconds_per_step[CPU] < 13e-3 * 3, "measured, with its trials, on two cores that were busy"
    assert mann.seconds_per_step[CPU] < maml.seconds_per_step[CPU]


def test_a_model_from_scratch_costs_what_its_predictions_cost() -> None:
    linear, network = (estimate(make_experiment("rainbow-digits", name)) for name in ("scratch", "scratch-network"))
    assert linear.steps == network.steps == 56 * 150
    assert 0.6e-3 / 3 < linear.seconds_per_step[CPU] < 0.6e-3 * 3, "measured"
    assert 9e-2 / 3 < network.seconds_per_step[CPU] < 9e-2 * 3, "measured on two cores that were busy"
    assert estimate(make_experiment("rainbow-digits-offline", "scratch")).steps == 0, "nothing is trained"


def test_the_estimate_follows_the_settings() -> None:
    def needs(**changes: Any) -> Any:
        settings = {name.replace("__", "."): value for name, value in changes.items()}
        return estimate(make_experiment("rainbow-digits", "ftml-vs", settings=settings))

    usual = needs()
    assert needs(protocol__num_tasks=28).steps == usual.steps / 2
    assert needs(protocol__updates_per_step=3).steps == 3 * usual.steps
    assert needs(learner__inner_steps=4).seconds_per_step[CPU] > 1.5 * usual.seconds_per_step[CPU]
    assert needs(learner__second_order=False).seconds_per_step[CPU] < usual.seconds_per_step[CPU]
    assert needs(network__channels=32).seconds_per_step[GPU] > usual.seconds_per_step[GPU]
    assert needs(learner__batching="in turn").working_bytes[CPU] < usual.working_bytes[CPU]
    assert needs(protocol__tasks_per_update=10).working_bytes[GPU] > usual.working_bytes[GPU]


def test_a_gpu_needs_memory_for_as_many_tasks_as_fill_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def needs(batching: str) -> Any:
        settings = {"learner.batching": batching, "protocol.tasks_per_update": 16}
        return estimate(make_experiment("rainbow-digits", "ftml-vs", settings=settings)).working_bytes

    auto, together, in_turn = (needs(batching) for batching in ("auto", "together", "in turn"))
    assert auto == {CPU: in_turn[CPU], GPU: together[GPU]}, "small images: all tasks at once"
    monkeypatch.setattr(objective, "FILL_A_GPU", 4 * 10 * 16 * 16 * 3)
    assert needs("together") == together
    assert needs("auto")[CPU] == in_turn[CPU]
    assert needs("auto")[GPU] - in_turn[GPU] == pytest.approx((together[GPU] - in_turn[GPU]) / 7), "four of sixteen"


@pytest.mark.parametrize("learner", list(LEARNERS))
def test_every_learner_is_estimated(learner: str) -> None:
    for name in ("rainbow-digits", "rainbow-digits-offline"):
        found = estimate(make_experiment(name, learner))
        assert all(value > 0 for value in (*found.seconds_per_step.values(), *found.working_bytes.values()))


def test_pretraining_counts() -> None:
    rules = replace(preset("sinusoid").protocol, num_tasks=10, pretrain_tasks=4, pretrain_steps=50)
    tasks = load_tasks("sinusoid")
    assert estimate(Experiment(tasks, "toe", rules)).steps == 6 * 100 + 50


class Nearest(Learner):
    """A learner without a network."""

    @property
    def wants(self) -> Any:
        return frozenset({"batch"})

    def init(self, key: Any) -> Any:
        return jax.numpy.zeros(())

    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        return state, {"loss": state}

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return query @ query.T @ query + state


def test_a_learner_of_your_own_is_estimated_by_its_predictions() -> None:
    rules = OnlineProtocol(num_tasks=3, max_steps=20, measure="loss", threshold=0.3, max_shots=5)
    found = estimate(Experiment(load_tasks("sinusoid"), Nearest(), rules))
    assert found.steps == 60
    assert found.working_bytes[CPU] > 0


@pytest.mark.slow
def test_every_embedded_preset_is_estimated() -> None:
    for name in PRESETS:
        if preset(name).data in ("rainbow-digits", "sinusoid"):
            assert (
                estimate(make_experiment(name)).seconds_per_step[CPU]
                > estimate(make_experiment(name)).seconds_per_step[GPU]
            )
