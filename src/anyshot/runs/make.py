"""From names to values: the experiment of a preset, or of a record."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from anyshot.errors import DataError, InputError
from anyshot.learners import Learner
from anyshot.offline.protocol import OfflineProtocol
from anyshot.online.protocol import OnlineProtocol
from anyshot.runs.experiment import Experiment, make_learner
from anyshot.runs.learner_records import learner_from, with_tuples
from anyshot.runs.presets import Preset, preset
from anyshot.runs.records import ExperimentRecord
from anyshot.runs.settings import change, own_hyperparameters
from anyshot.tasks import TaskSet, load_tasks
from anyshot.tasks.load import check_settings


def make_experiment(
    name: str, learner: str | None = None, seed: int = 0, settings: Mapping[str, Any] | None = None
) -> Experiment:
    """The experiment of a preset.

    Args:
        name: of the preset; `anyshot presets` lists them.
        learner: the name of the method; by default anyshot online and maml-vs offline.
        seed: of the stream, the initial weights and every draw.
        settings: to change, by dotted names, such as {"protocol.threshold": 0.7}. Those after "learner." depend on the
            learner: `anyshot learners NAME` lists them.

    >>> make_experiment("sinusoid", "toe", settings={"protocol.num_tasks": 5}).protocol.num_tasks
    5
    """
    found = preset(name)
    learner = learner or found.default_learner
    return experiment_of(change(found, learner, settings or {}), learner, seed)


def experiment_of(found: Preset, learner: str, seed: int, tasks: TaskSet | None = None) -> Experiment:
    """The experiment of a preset that may have been changed.

    Args:
        found: the preset.
        learner: the name of the method.
        seed: of the run.
        tasks: its tasks, where they are at hand; loaded by default.
    """
    tasks = tasks or tasks_of(found)
    hyperparameters = own_hyperparameters(found, learner)
    made = make_learner(learner, tasks, found.protocol, network=found.network, **hyperparameters)
    return Experiment(tasks, made, found.protocol, seed)


def tasks_of(found: Preset) -> TaskSet:
    """The tasks of a preset."""
    settings: dict[str, Any] = dict(found.data_settings)
    return load_tasks(found.data, seed=found.data_seed, **settings)


def experiment_from(record: ExperimentRecord) -> Experiment:
    """The experiment that a run folder describes; refused if only Python code can make its parts."""
    tasks = tasks_from(record)
    if tasks.fingerprint != record.tasks.fingerprint:
        raise DataError(
            f"the {tasks.name} here has fingerprint {tasks.fingerprint[:16]}, but that of the run was "
            f"{record.tasks.fingerprint[:16]}; bring that data back"
        )
    return Experiment(tasks, learner_of(record, tasks), protocol_from(record), record.seed)


def tasks_from(record: ExperimentRecord) -> TaskSet:
    """The task set that a record describes; own tasks are refused."""
    origin = record.tasks.origin
    if origin is None:
        raise InputError(
            f"the run is of own tasks ({record.tasks.name}), which its folder does not hold; make the Experiment again "
            "in Python and give it to anyshot.run with the same folder"
        )
    check_settings(origin.name, origin.seed, origin.settings)
    return load_tasks(origin.name, seed=origin.seed, **origin.settings)  # type: ignore[arg-type]


def learner_of(record: ExperimentRecord, tasks: TaskSet | None = None) -> Learner:
    """The learner that a record describes.

    Args:
        record: of the experiment.
        tasks: its tasks, for a record of format 1, which does not say what an example looks like; loaded if need be.
    """
    learner = record.learner
    if learner.problem is not None or learner.network is None or record.tasks.origin is None:
        return learner_from(learner)
    tasks, protocol = tasks or tasks_from(record), protocol_from(record)
    network, hyperparameters = with_tuples(learner.network or {}), with_tuples(learner.hyperparameters)
    return make_learner(learner.name, tasks, protocol, network=network, **hyperparameters)


def protocol_from(record: ExperimentRecord) -> OnlineProtocol | OfflineProtocol:
    """The protocol that a record describes."""
    kind = OnlineProtocol if record.kind == "online" else OfflineProtocol
    known = {field.name for field in dataclasses.fields(kind)}
    unknown = [name for name in record.protocol if name not in known]
    if unknown:
        raise InputError(f"the record has a setting that this version does not know: protocol.{unknown[0]}")
    return kind(**with_tuples(record.protocol))
