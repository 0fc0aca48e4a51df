"""What an experiment is called in a table, and the command that runs it."""

from __future__ import annotations

import functools
import shlex
from typing import Any

from anyshot.errors import InputError
from anyshot.offline.protocol import OfflineProtocol
from anyshot.online.protocol import OnlineProtocol
from anyshot.runs.presets import PRESETS, Preset, preset
from anyshot.runs.records import ExperimentRecord, LearnerRecord
from anyshot.runs.settings import format_value, list_settings


def title(record: ExperimentRecord) -> str:
    """The nearest preset and what is changed in it; the task set's name for own tasks.

    The learner's hyperparameters are left out: they differ from learner to learner.
    """
    found = nearest_preset(record)
    if found is None:
        return record.tasks.name
    name, changes = found
    shown = [f"{key} {format_value(value)}" for key, value in changes.items() if not key.startswith("learner.")]
    return name + (f" with {', '.join(shown)}" if shown else "")


def command(record: ExperimentRecord, folder: str) -> str | None:
    """The command that runs the experiment; None if only Python code can make its parts."""
    found = nearest_preset(record)
    if found is None or not _is_of_catalogue(record.learner.model_dump_json()):
        return None
    name, changes = found
    words = ["anyshot", "run", name, "--learner", record.learner.name, "--seed", str(record.seed), "--out", folder]
    if changes:
        words += ["--set", *(f"{key}={format_value(value)}" for key, value in changes.items())]
    return shlex.join(words)


def nearest_preset(record: ExperimentRecord) -> tuple[str, dict[str, Any]] | None:
    """The preset of the same task set with the fewest settings to change, and these; None if there is none."""
    origin, network = record.tasks.origin, record.learner.network or {}
    if origin is None or "kind" not in network or "sha256" in network:
        return None
    protocol = OnlineProtocol() if record.kind == "online" else OfflineProtocol()
    best: tuple[str, dict[str, Any]] | None = None
    try:
        usual = list_settings(Preset(origin.name, {"kind": str(network["kind"])}, {}, protocol), record.learner.name)
        ours = {name: _plain(value) for name, value in {**usual, **record.settings()}.items()}
        for name in PRESETS:
            candidate = preset(name)
            if candidate.protocol.kind != record.kind or candidate.data != origin.name:
                continue
            theirs = list_settings(candidate, record.learner.name)
            if theirs["network.kind"] != network["kind"]:  # which then begins with its own defaults
                theirs |= {key: usual[key] for key in usual if key.startswith("network.") and key != "network.kind"}
            changes = {key: value for key, value in ours.items() if key not in theirs or _plain(theirs[key]) != value}
            if best is None or len(changes) < len(best[1]):
                best = name, changes
    except InputError:  # a task set, network or learner that is not registered here
        return None
    return best


@functools.lru_cache
def _is_of_catalogue(record: str) -> bool:
    """Whether the name and the settings of a learner, given as JSON, are enough to make it."""
    from anyshot.learners import NetworkLearner
    from anyshot.runs.experiment import usual_loss
    from anyshot.runs.learner_records import learner_from

    learner = LearnerRecord.model_validate_json(record)
    if "sha256" in learner.type or _has_hash(learner.fields):  # own code, which only this process may have registered
        return False
    if learner.problem is None:  # written by a version in which nothing else could be run
        return True
    try:
        made = learner_from(learner)
    except InputError:
        return False
    assert isinstance(made, NetworkLearner)
    return made.spec.loss is usual_loss(made.spec.problem)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _has_hash(described: Any) -> bool:
    if isinstance(described, dict):
        return "sha256" in described or any(map(_has_hash, described.values()))
    return isinstance(described, list) and any(map(_has_hash, described))
