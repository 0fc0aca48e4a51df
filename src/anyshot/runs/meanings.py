"""What settings mean, taken from the docstrings where they are defined."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from docstring_parser import parse

from anyshot.learners.catalogue import hyperparameters_of
from anyshot.networks.catalogue import NETWORKS
from anyshot.runs.presets import Preset
from anyshot.tasks.catalogue import find_entry


def explain_settings(preset: Preset, learner: str) -> dict[str, str]:
    """What each setting of a preset means, by its dotted name.

    Args:
        preset: whose settings.
        learner: the name of the learner, which decides which hyperparameters there are.

    >>> from anyshot.runs.presets import preset
    >>> explain_settings(preset("sinusoid"), "toe")["learner.meta_rate"]
    'the step size of Adam.'
    """
    parts = {
        "data": explain(find_entry(preset.data).builder()),
        "network": explain(NETWORKS.find(preset.network["kind"]).load()),
        "learner": explain_hyperparameters(learner),
        "protocol": explain(type(preset.protocol)),
    }
    known = {
        "data.name": "the task set.",
        "data.seed": "of the task set: decides, for example, which examples are for testing.",
        "network.kind": f"the network: {', '.join(NETWORKS)}.",
    }
    return {f"{part}.{name}": text for part, texts in parts.items() for name, text in texts.items()} | known


def explain_hyperparameters(learner: str) -> dict[str, str]:
    """What each hyperparameter of a learner means."""
    return explain(*reversed(hyperparameters_of(learner).__mro__))


def explain(*documented: Any) -> dict[str, str]:
    """What the docstrings of functions and classes say of each argument or attribute; later ones take precedence."""
    return {name: text for one in documented for name, text in _entries(one.__doc__ or "")}


def _entries(docstring: str) -> Iterable[tuple[str, str]]:
    for entry in parse(docstring).params:
        yield entry.arg_name, " ".join((entry.description or "").split())
