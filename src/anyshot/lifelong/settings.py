"""Settings of a learner as a user gives them, checked and completed before anything is written."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from anyshot.errors import InputError
from anyshot.learners.catalogue import hyperparameters_of
from anyshot.lifelong.contents import encode_json
from anyshot.lifelong.learning import LearnerSettings
from anyshot.limits import MOST_SIZE, check_whole
from anyshot.networks import NETWORKS, make_network
from anyshot.networks.catalogue import name_for
from anyshot.registry import keyword_defaults

# Hyperparameters of FTML that differ from the paper's, as there are fewer updates here. They were chosen on seed 10 of
# benchmarks/own_tasks.py.
OF_FTML = {"meta_rate": 1e-3, "inner_rate": 0.1}
SHAPES = ((8,), (64, 64), (28, 28, 3), (2, 28, 28, 3))  # of inputs; each suits one of the built-in networks


def complete_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of a learner, in values that JSON has; refuses those that no learner could be made of.

    >>> complete_settings({"learner": "ftml-vs"})["hyperparameters"]
    {'meta_rate': 0.001, 'inner_rate': 0.1}
    """
    settings: dict[str, Any] = make_plain(dataclasses.asdict(LearnerSettings(**given)))
    if not isinstance(settings["learner"], str):
        raise InputError(f"learner must be a name in the catalogue, such as 'ftml-vs', got {settings['learner']!r}")
    kind = hyperparameters_of(settings["learner"])
    known = kind.__dataclass_fields__
    for name in settings["hyperparameters"]:
        if name not in known:
            raise InputError(f"{settings['learner']} has no hyperparameter {name!r}; it has {', '.join(known)}")
    usual = OF_FTML if "inner_rate" in known else {}
    settings["hyperparameters"] = usual | settings["hyperparameters"]
    kind(**settings["hyperparameters"])
    check_whole("max_shots", settings["max_shots"], 1, MOST_SIZE)
    check_whole("tasks_per_update", settings["tasks_per_update"], 1, MOST_SIZE)
    check_whole("seed", settings["seed"], 0, 2**31 - 1)
    _check_network(settings["network"])
    encode_json("settings", settings)
    return settings


def make_plain(value: Any) -> Any:
    """A value as it comes back from JSON."""
    if isinstance(value, Mapping):
        return {str(name): make_plain(one) for name, one in value.items()}
    return [make_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def _check_network(network: Any) -> None:
    """Refuse a network that there is not, or that has no such settings. What suits inputs is seen when they come."""
    kind = network.get("kind", "auto") if isinstance(network, Mapping) else network
    if kind == "auto":
        return
    for shape in SHAPES:
        if kind == name_for(shape) or not isinstance(kind, str):
            make_network(network, shape)
            return
    known, given = keyword_defaults(NETWORKS.find(kind).load()), {"kind": kind} if network == kind else network
    for name in given:
        if name not in ("kind", *known):
            raise InputError(f"network {kind} has no setting {name!r}; it has {', '.join(known) or 'none'}")
