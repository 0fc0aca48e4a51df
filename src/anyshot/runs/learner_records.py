"""A learner as a record, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from anyshot.adaptation import cross_entropy, squared_error
from anyshot.errors import InputError
from anyshot.learners import Learner, LearnerSpec, NetworkLearner, Problem, build_learner
from anyshot.networks import NETWORKS, NetworkFactory, make_network
from anyshot.runs.describe import describe, describe_part
from anyshot.runs.records import LearnerRecord, ProblemRecord, ShapeRecord

LOSSES = {f"{loss.__module__}.{loss.__name__}": loss for loss in (cross_entropy, squared_error)}


def describe_learner(learner: Learner) -> LearnerRecord:
    """A learner as JSON."""
    kind = describe(type(learner))
    own_fields = {field.name: getattr(learner, field.name) for field in dataclasses.fields(learner)}
    if not isinstance(learner, NetworkLearner):
        return LearnerRecord(name=learner.name, type=kind, fields=describe(own_fields))
    spec, problem = learner.spec, learner.spec.problem
    return LearnerRecord(
        name=learner.name,
        type=kind,
        hyperparameters=describe(dataclasses.asdict(learner.hyper)),
        network=_describe_network(spec.network),
        loss=describe_part(spec.loss),
        optimiser=None if spec.optimiser is None else describe_part(spec.optimiser),
        problem=ProblemRecord(
            example=[
                ShapeRecord(shape=list(leaf.shape), dtype=str(leaf.dtype)) for leaf in jax.tree.leaves(problem.example)
            ],
            outputs=problem.outputs,
            max_shots=problem.max_shots,
        ),
        fields=describe({name: own_fields[name] for name in own_fields if name not in ("spec", "hyper")}),
    )


def default_hyperparameters(learner: Learner) -> dict[str, Any]:
    """The defaults of a learner's hyperparameters, as in its record."""
    if not isinstance(learner, NetworkLearner):
        return {}
    fields = dataclasses.fields(learner.hyper)
    return {field.name: describe(field.default) for field in fields if field.default is not dataclasses.MISSING}


def learner_from(record: LearnerRecord) -> Learner:
    """The learner that a record describes; refused if it has parts that only Python code can make again."""
    loss, shapes = record.loss or {}, record.problem.example if record.problem else []
    own = {
        "class": not record.network and not record.problem,
        "network": "kind" not in (record.network or {}),
        "loss": loss.get("name") not in LOSSES or "sha256" in loss,
        "optimiser": record.optimiser is not None,
        "kind of inputs": len(shapes) != 2,
    }
    for part, is_own in own.items():
        if is_own:
            raise InputError(
                f"{record.name} was run with an own {part}, which a folder cannot hold; make the learner again and "
                "pass it as learner=..."
            )
    assert record.network is not None
    assert record.problem is not None
    example = tuple(jax.ShapeDtypeStruct(tuple(one.shape), _dtype(one.dtype)) for one in shapes)
    problem = Problem(example, record.problem.outputs, record.problem.max_shots)  # type: ignore[arg-type]
    settings = {name: value for name, value in record.network.items() if name != "sha256"}
    network = make_network(settings, problem.example[0].shape)
    spec = LearnerSpec(record.name, problem, network, LOSSES[loss["name"]])
    learner = build_learner(spec, with_tuples(record.hyperparameters))
    found = describe_learner(learner)
    if found.type != record.type or found.fields != record.fields:
        raise InputError(f"{record.name} is another learner here than in the run; pass the right one as learner=...")
    if (found.network or {}).get("sha256") != record.network.get("sha256"):
        raise InputError(f"network {network.kind} has changed since the run; bring the one of the run back")
    return learner


def _dtype(name: str) -> Any:
    try:
        return np.dtype(name)
    except (TypeError, ValueError) as error:
        raise InputError(f"the dtype of an example must be one of numpy, got {name!r}") from error


def _describe_network(network: Any) -> dict[str, Any]:
    if not isinstance(network, NetworkFactory):
        return dict(describe_part(network))
    made_by = describe_part(NETWORKS.find(network.kind).load())
    return {**network.describe(), **{name: made_by[name] for name in made_by if name == "sha256"}}


def with_tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings from JSON, which has lists where they have tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
