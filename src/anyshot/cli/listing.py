"""`anyshot presets` and `anyshot learners`: what there is by name, and what their settings mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import tyro

from anyshot.cli.options import LearnerName, PresetName
from anyshot.learners.catalogue import LEARNERS
from anyshot.runs.presets import PRESETS, preset
from anyshot.runs.settings import format_value, list_settings


def presets(name: tyro.conf.Positional[PresetName] = None, learner: LearnerName = None) -> None:
    """List the presets, or all settings of one preset with their values and meaning.

    Change settings with `anyshot run PRESET --set NAME=VALUE ...`. A value is a number, several numbers with commas
    (network.hidden=40,40), a word, true, false or none.

    Args:
        name: of a preset.
        learner: whose hyperparameters are listed; by default anyshot online and maml-vs offline.
    """
    if name is None:
        print(f"presets:\n{_columns(PRESETS.summaries())}")
        return
    found, summary = preset(name), PRESETS.find(name).summary
    learner = learner or found.default_learner
    LEARNERS.find(learner)
    from anyshot.runs.meanings import explain_settings

    meanings = explain_settings(found, learner)
    print(f"{name}: {summary}\n\nsettings with {learner}:")
    values = {key: format_value(value) for key, value in list_settings(found, learner).items()}
    print(_columns({f"{key}={value}": meanings.get(key, "") for key, value in values.items()}))


def learners(name: tyro.conf.Positional[LearnerName] = None) -> None:
    """List the learners, or the hyperparameters of one learner with their defaults and meaning.

    Change hyperparameters with `anyshot run PRESET --set learner.NAME=VALUE ...`. Presets have their own values for
    some of them.

    Args:
        name: of a learner.
    """
    if name is None:
        print(f"learners:\n{_columns(LEARNERS.summaries())}")
        return
    summary = LEARNERS.find(name).summary
    from anyshot.learners.catalogue import hyperparameters_of
    from anyshot.runs.meanings import explain_hyperparameters

    meanings = explain_hyperparameters(name)
    fields = dataclasses.fields(hyperparameters_of(name))
    rows = {f"learner.{field.name}={format_value(field.default)}": meanings.get(field.name, "") for field in fields}
    print(f"{name}: {summary}\n\nhyperparameters:\n{_columns(rows)}")


def _columns(rows: Mapping[str, str]) -> str:
    width = max(map(len, rows))
    return "\n".join(f"  {left:{width}}  {right}".rstrip() for left, right in rows.items())
