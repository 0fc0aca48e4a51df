"""What settings are called, and the command that has them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from anyshot.runs.offline_presets import OFFLINE_PRESETS
from anyshot.runs.presets import PRESETS
from anyshot.runs.settings import OfflineSettings, Settings

AnySettings = Settings | OfflineSettings


def differences(one: AnySettings, other: AnySettings) -> list[tuple[str, str, str]]:
    """Name and both values, as JSON, of each setting in which they differ; both online or both offline."""
    found = []
    theirs = other.model_dump(mode="json")
    for part, values in one.model_dump(mode="json").items():
        for name, value in values.items():
            ours, other_value = json.dumps(value), json.dumps(theirs[part][name])
            if ours != other_value:
                found.append((f"{part}.{name}", ours, other_value))
    return found


def nearest(settings: AnySettings) -> tuple[str, AnySettings]:
    """The preset with the fewest settings to change, and of the same data if there is one: its name and itself."""
    offline = isinstance(settings, OfflineSettings)
    presets: Mapping[str, tuple[AnySettings, str]] = OFFLINE_PRESETS if offline else PRESETS

    def distance(name: str) -> tuple[bool, int]:
        preset = presets[name][0]
        return preset.data.name != settings.data.name, len(differences(preset, settings))

    name = min(presets, key=distance)
    return name, presets[name][0]


def title(settings: AnySettings) -> str:
    """The preset, and what is changed in it.

    >>> title(PRESETS["pose"][0]), title(OFFLINE_PRESETS["omniglot-5way"][0])
    ('pose', 'omniglot-5way')
    """
    name, preset = nearest(settings)
    changed = [f"{setting} {value}" for setting, _, value in differences(preset, settings)]
    return name + (f" with {', '.join(changed)}" if changed else "")


def command(settings: AnySettings, learner: str, seed: int, folder: str) -> str:
    """The command that runs the experiment.

    >>> print(command(PRESETS["pose"][0], "toe", 1, "runs/a b"))
    anyshot run pose --learner toe --seed 1 --out 'runs/a b'
    >>> print(command(OFFLINE_PRESETS["omniglot-5way"][0], "maml", 1, "runs/a"))
    anyshot offline omniglot-5way --learner maml --seed 1 --out runs/a
    """
    name, preset = nearest(settings)
    verb = "offline" if isinstance(settings, OfflineSettings) else "run"
    words = ["anyshot", verb, name, "--learner", learner, "--seed", str(seed), "--out", folder]
    values = settings.model_dump(mode="json")
    for setting, _, _ in differences(preset, settings):
        part, short = setting.split(".")
        words += _flag(part, short.replace("_", "-"), values[part][short])
    return shlex.join(words)


def _flag(part: str, name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{part}.{name}" if value else f"--{part}.no-{name}"]
    if isinstance(value, dict):
        return [f"--{part}.{name}", *(str(word) for pair in value.items() for word in pair)]
    return [f"--{part}.{name}", *map(str, value if isinstance(value, list) else [value])]
