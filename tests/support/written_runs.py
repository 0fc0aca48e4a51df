"""Run folders written by hand, with numbers that are known, in milliseconds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from anyshot.learners.catalogue import LEARNERS
from anyshot.runs.files import sealed, sha256
from anyshot.runs.presets import preset
from anyshot.runs.reading import hash_of
from anyshot.runs.records import ExperimentRecord, LearnerRecord, Origin, TasksRecord
from anyshot.runs.settings import list_settings

Events = list[dict[str, Any]]
Change = Callable[[Events], Events]
TASKS = 6
KEPT = 60  # the step of the best of four trials
RULES: dict[str, dict[str, Any]] = {
    "online": {"num_tasks": TASKS, "max_shots": 4},
    "offline": {"steps": 80, "steps_per_trial": 20, "max_shots": 3, "test_shots": (0, 2, 3)},
}


def record_of(
    learner: str, seed: int, name: str, hyperparameters: Mapping[str, Any] | None = None, **protocol: Any
) -> ExperimentRecord:
    """The experiment of a preset with other rules; a learner that is not registered looks like FTML."""
    found = preset(name)
    rules = replace(found.protocol, **{**RULES[found.protocol.kind], **protocol})
    known = learner if learner in LEARNERS else "ftml"
    settings = list_settings(replace(found, protocol=rules), known)
    parts: dict[str, dict[str, Any]] = {"network": {}, "learner": {}, "protocol": {}, "data": {}}
    for setting, value in settings.items():
        part, _, short = setting.partition(".")
        parts[part][short] = list(value) if isinstance(value, tuple) else value
    loss = "squared_error" if found.data == "sinusoid" else "cross_entropy"
    return ExperimentRecord(
        kind=rules.kind,  # type: ignore[arg-type]
        seed=seed,
        tasks=TasksRecord(name=found.data, fingerprint="f00", num_tasks=56, origin=Origin(name=found.data, seed=0)),
        learner=LearnerRecord(
            name=learner,
            type={"name": "anyshot.learners.ftml.FTML"},
            hyperparameters={**parts["learner"], **(hyperparameters or {})},
            network=parts["network"],
            loss={"name": f"anyshot.adaptation.losses.{loss}"},
        ),
        protocol=parts["protocol"],
    )


def online_events(record: ExperimentRecord) -> Events:
    """What an online run might have written."""
    learner, draw = record.learner.name, _draws(record)
    events: Events = []
    total_loss, total_labels = 0.0, 0
    for position, task in enumerate(np.random.default_rng(record.seed).permutation(TASKS)):
        rounds = int(draw.integers(0, 9))
        for number in range(rounds + 1):
            ended, loss = number == rounds, float(draw.uniform(0.1, 3.0))
            total_loss += loss
            event: dict[str, Any] = {
                "kind": "evaluation",
                "position": position,
                "task": f"task {task}",
                "step": 4 * number,
                "labels": 4 * number,
                "shots": min(2 * number, 4),
                "loss": loss,
                "mastered": ended and rounds < 6,
                "ended": ended,
                "total_loss": total_loss,
                "total_labels": total_labels + 4 * number,
                "rates": {},
            }
            if record.protocol["measure"] == "accuracy":
                event["accuracy"] = float(draw.uniform(0.0, 1.0))
            if learner == "ftml-vs":
                event["rates"] |= {"beta": 0.1 / (1 + position), "eta": 1.0 + position}
            if learner.startswith("ftml") and ended:
                event["rates"]["alpha"] = [float(rate) for rate in draw.uniform(0, 0.1, 5)]
            events.append(event)
        total_labels += 4 * rounds
    return events


def offline_events(record: ExperimentRecord) -> Events:
    """What an offline run might have written; scores rise with the trial until the third."""
    learner, draw, shots = record.learner.name, _draws(record), record.test_shots
    classifies = record.tasks.name != "sinusoid"
    events: Events = []
    for trial, score in enumerate((0.2, 0.3, 0.5, 0.4), start=1):
        event: dict[str, Any] = {"kind": "trial", "step": 20 * trial, "loss": [1.0] * len(shots), "rates": {}}
        event |= {"score": score if classifies else -1 / score, "better": trial < 4, "ended": trial == 4}
        if classifies:
            event["accuracy"] = [score] * len(shots)
        if learner.startswith("maml"):
            event["rates"]["alpha"] = [0.0, *map(float, trial * draw.uniform(0, 0.1, 3))]
        if learner == "maml-vs":
            event["rates"] |= {"beta": 0.1 * trial + record.seed, "eta": 1.0 * trial}
        events.append(event)
    for number in shots:
        line = {"kind": "test", "shots": number, "loss": float(draw.uniform(0.5, 3)), "loss_error": 0.001}
        if classifies:
            line |= {"accuracy": float(draw.uniform(0, 1)), "accuracy_error": 0.001 * (1 + record.seed)}
        events.append({**line, "episodes": 720})
    return events


def write_run(
    folder: Path,
    learner: str,
    seed: int,
    name: str = "rainbow-digits",
    *,
    finished: bool = True,
    change: Change = lambda events: events,
    change_record: Callable[[dict[str, Any]], dict[str, Any]] = lambda record: record,
    hyperparameters: Mapping[str, Any] | None = None,
    **protocol: Any,
) -> Events:
    """A run folder without checkpoints; returns its events.

    Args:
        folder: to make.
        learner: the name of the learner.
        seed: of the run.
        name: of the preset.
        finished: whether it has a summary.
        change: the events before they are written.
        change_record: the experiment before it is written, which need not be one afterwards.
        hyperparameters: to change.
        protocol: rules to change.
    """
    folder.mkdir(parents=True)
    record = record_of(learner, seed, name, hyperparameters, **protocol)
    events = change(online_events(record) if record.kind == "online" else offline_events(record))
    content = change_record(record.model_dump(mode="json"))
    (folder / "experiment.json").write_bytes(sealed(content))
    (folder / "environment.json").write_bytes(sealed([{"anyshot": "0.2.0", "device": "cpu <&>", "opened": "then"}]))
    log = "".join(json.dumps(event) + "\n" for event in events).encode()
    (folder / "events.jsonl").write_bytes(log)
    if finished:
        summary = {
            "format": 2,
            "kind": record.kind,
            "experiment_sha256": hash_of(content),
            "events_sha256": sha256(log),
        }
        if record.kind == "online":
            summary |= {"tasks": TASKS, "mastered": 0, "total_loss": 0.0, "total_labels": 0}
        else:
            summary |= {"steps": 80, "best_step": KEPT, "tests": []}
        (folder / "summary.json").write_bytes(sealed(summary))
    return events


def _draws(record: ExperimentRecord) -> np.random.Generator:
    """Numbers that depend on the experiment."""
    learner = record.learner
    return np.random.default_rng([record.seed, *map(ord, learner.name + str(learner.hyperparameters))])
