"""Experiments and results that were not run, for tests of the paper's tables."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from anyshot.runs.presets import preset
from anyshot.runs.records import ExperimentRecord, LearnerRecord, Origin, TasksRecord
from anyshot.runs.settings import change, own_hyperparameters
from paper.jobs import Job
from paper.records import LossByShots, Online, Result, Tasks, Totals
from paper.targets import Spec, specs_of


def make_experiment(job: Job, spec: Spec | None = None) -> ExperimentRecord:
    """The record of a job's experiment, on tasks that need not be there."""
    spec = spec or specs_of(job.label)[0]
    found = change(preset(job.preset), spec.learner, spec.settings)
    origin = Origin(name=found.data, seed=found.data_seed, settings=dict(found.data_settings))
    content = {
        "kind": found.protocol.kind,
        "seed": job.seed,
        "tasks": TasksRecord(name=found.data, fingerprint="f00", origin=origin).to_json(),
        "learner": LearnerRecord(
            name=spec.learner,
            type={"name": "fake"},
            hyperparameters=own_hyperparameters(found, spec.learner),
            network=dict(found.network),
        ).to_json(),
        "protocol": dataclasses.asdict(found.protocol),
    }
    return ExperimentRecord.model_validate_json(json.dumps(content))


def make_result(job: Job, loss: float, **more: Any) -> Result:
    """The result of an online run with two tasks."""
    tasks = Tasks(
        name=["a", "b"],
        labels=[4, 8],
        labels_until_mastered=[4, None],
        steps=[10, 20],
        zero_shot_accuracy=[None, 0.1],
        last_accuracy=[None, 0.9],
        mastered=[True, False],
    )
    totals = Totals(
        cumulative_loss=loss, labels=100 * (job.seed + 1), test_labels=9, steps=1000, mastered=3, evaluations=4
    )
    shots = LossByShots(shots=[0], all=[1.0], late=[None])
    outcome = Online(
        totals=totals, tasks=tasks, cumulative_loss=[loss / 2, loss], loss_by_shots=shots, rates=more.pop("rates", {})
    )
    return Result(
        preset=job.preset,
        label=job.label,
        experiment=make_experiment(job),
        environment={"device": "abacus"},
        wall=None,
        outcome=outcome,
    ).model_copy(update=more)


def make_results(preset: str, **losses: list[float]) -> list[Result]:
    """Results of some methods (_ for -), a loss for each seed."""
    return [
        make_result(Job(preset, label.replace("_", "-"), seed), loss)
        for label, each in losses.items()
        for seed, loss in enumerate(each)
    ]
