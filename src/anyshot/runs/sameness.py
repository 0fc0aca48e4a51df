"""Whether a run folder holds the experiment that is to be run in it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from anyshot.errors import InputError
from anyshot.offline.protocol import OfflineProtocol
from anyshot.online.protocol import OnlineProtocol
from anyshot.runs.records import ExperimentRecord


def check_same(folder: Path, theirs: ExperimentRecord, ours: ExperimentRecord, defaults: dict[str, Any]) -> None:
    """Refuse another experiment, naming the first thing that differs.

    Args:
        folder: that is to be opened.
        theirs: what it holds.
        ours: what is to be run.
        defaults: of the learner's hyperparameters; see `with_defaults`.
    """
    difference = find_difference(with_defaults(theirs, defaults), with_defaults(ours, {}))
    if difference:
        raise InputError(
            f"{folder} holds another experiment: {difference}; choose another folder, or the same settings"
        )


def with_defaults(record: ExperimentRecord, defaults: dict[str, Any]) -> dict[str, Any]:
    """A record as JSON. What it lacks of hyperparameters and protocol was added later, and has its default."""
    content = record.model_dump(mode="json")
    rules = OnlineProtocol() if record.kind == "online" else OfflineProtocol()
    content["protocol"] = {**json.loads(json.dumps(dataclasses.asdict(rules))), **content["protocol"]}
    content["learner"]["hyperparameters"] = {**defaults, **content["learner"]["hyperparameters"]}
    return content


def find_difference(theirs: Any, ours: Any, where: str = "") -> str | None:
    """The first difference between two JSON values in words, or None.

    >>> find_difference({"seed": 1, "protocol": {"max_shots": 5}}, {"seed": 1, "protocol": {"max_shots": 6}})
    'protocol.max_shots is 5 there and 6 here'
    """
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in dict.fromkeys([*theirs, *ours]):
            inner = f"{where}.{name}" if where else name
            if name not in theirs or name not in ours:
                value, place = (ours[name], "here") if name not in theirs else (theirs[name], "there")
                return f"{inner} is {json.dumps(value)} {place} only"
            difference = find_difference(theirs[name], ours[name], inner)
            if difference:
                return difference
        return None
    if json.dumps(theirs) == json.dumps(ours):  # as JSON, since True == 1 == 1.0
        return None
    if where.endswith("sha256"):
        return f"{where.removesuffix('.sha256')} has changed (its source, or the values it uses)"
    return f"{where} is {json.dumps(theirs)} there and {json.dumps(ours)} here"
