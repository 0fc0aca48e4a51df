"""What settings are called, and the command that has them."""

from __future__ import annotations

import json
import shlex
from typing import Any

from anyshot.runs.presets import PRESETS
from anyshot.runs.settings import Settings


def differences(one: Settings, other: Settings) -> list[tuple[str, str, str]]:
    """Name and both values, as JSON, of each setting in which they differ."""
    found = []
    theirs = other.model_dump(mode="json")
    for part, values in one.model_dump(mode="json").items():
        for name, value in values.items():
            ours, other_value = json.dumps(value), json.dumps(theirs[part][name])
            if ours != other_value:
                found.append((f"{part}.{name}", ours, other_value))
    return found


def nearest(settings: Settings) -> str:
    """The preset with the fewest settings to change, and of the same data if there is one."""

    def distance(name: str) -> tuple[bool, int]:
        preset = PRESETS[name][0]
        return preset.data.name != settings.data.name, len(differences(preset, settings))

    return min(PRESETS, key=distance)


def title(settings: Settings) -> str:
    """The preset, and what is changed in it.

    >>> title(PRESETS["pose"][0])
    'pose'
    """
    name = nearest(settings)
    changed = [f"{setting} {value}" for setting, _, value in differences(PRESETS[name][0], settings)]
    return name + (f" with {', '.join(changed)}" if changed else "")


def command(settings: Settings, learner: str, seed: int, folder: str) -> str:
    """The command that runs the experiment.

    >>> print(command(PRESETS["pose"][0], "toe", 1, "runs/a b"))
    anyshot run pose --learner toe --seed 1 --out 'runs/a b'
    """
    name = nearest(settings)
    words = ["anyshot", "run", name, "--learner", learner, "--seed", str(seed), "--out", folder]
    values = settings.model_dump(mode="json")
    for setting, _, _ in differences(PRESETS[name][0], settings):
        part, short = setting.split(".")
        words += _flag(part, short.replace("_", "-"), values[part][short])
    return shlex.join(words)


def _flag(part: str, name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{part}.{name}" if value else f"--{part}.no-{name}"]
    if isinstance(value, dict):
        return [f"--{part}.{name}", *(str(word) for pair in value.items() for word in pair)]
    return [f"--{part}.{name}", *map(str, value if isinstance(value, list) else [value])]
