"""Settings by dotted names, such as protocol.threshold and learner.inner_rate: presets with changes."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from anyshot.errors import InputError
from anyshot.registry import keyword_defaults
from anyshot.runs.presets import Preset

PARTS = ("data", "network", "learner", "protocol")


def parse_settings(words: Sequence[str]) -> dict[str, Any]:
    """Settings from the command line: NAME=VALUE each.

    >>> parse_settings(["protocol.threshold=0.7", "network.hidden=40,40", "protocol.num_tasks=none"])
    {'protocol.threshold': 0.7, 'network.hidden': (40, 40), 'protocol.num_tasks': None}
    """
    found: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not (name and equals):
            raise InputError(f"--set takes NAME=VALUE, such as protocol.threshold=0.7, got {word!r}")
        if name in found:
            raise InputError(f"--set has {name} twice; give it once")
        found[name] = _parse(text)
    return found


def format_value(value: Any) -> str:
    """A value as --set takes it.

    >>> format_value(0.7), format_value((40, 40)), format_value((8,)), format_value(()), format_value(None)
    ('0.7', '40,40', '8', ',', 'none')
    """
    if isinstance(value, tuple):
        return ",".join(map(format_value, value)) or ","
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def change(preset: Preset, learner: str, settings: Mapping[str, Any]) -> Preset:
    """The preset with some settings changed. Names and values that cannot be are refused.

    Args:
        preset: to change.
        learner: the name of the learner, which decides which hyperparameters there are.
        settings: values by dotted names.
    """
    known = list_settings(preset, learner)
    network, kind = dict(preset.network), settings.get("network.kind")
    if kind is not None and kind != network["kind"]:
        network = {"kind": kind}
        known = {n: v for n, v in known.items() if not n.startswith("network.")} | _network_settings(network)
    data_settings, hyperparameters, rules, seed = (
        dict(preset.data_settings),
        dict(preset.hyperparameters),
        {},
        preset.data_seed,
    )
    for name, value in settings.items():
        part, _, short = name.partition(".")
        if name == "data.name" or name not in known:
            raise InputError(_unknown(name, known))
        value = _as_its_default(value, known[name])
        if name == "data.seed":
            seed = value
        elif part == "data":
            data_settings[short] = value
        elif part == "network":
            network[short] = value
        elif part == "learner":
            hyperparameters[short] = value
        else:
            rules[short] = value
    return dataclasses.replace(
        preset,
        network=network,
        hyperparameters=hyperparameters,
        protocol=dataclasses.replace(preset.protocol, **rules),
        data_seed=seed,
        data_settings=data_settings,
    )


def list_settings(preset: Preset, learner: str) -> dict[str, Any]:
    """Every setting of a preset by its dotted name, defaults included."""
    from anyshot.learners.catalogue import hyperparameters_of
    from anyshot.tasks.catalogue import find_entry

    fields = dataclasses.fields(hyperparameters_of(learner))
    data = {**find_entry(preset.data).settings(), **preset.data_settings}
    return {
        "data.name": preset.data,
        "data.seed": preset.data_seed,
        **{f"data.{name}": value for name, value in data.items()},
        **_network_settings(preset.network),
        **{f"learner.{one.name}": preset.hyperparameters.get(one.name, one.default) for one in fields},
        **{f"protocol.{name}": value for name, value in dataclasses.asdict(preset.protocol).items()},
    }


def own_hyperparameters(preset: Preset, learner: str) -> dict[str, Any]:
    """Those of a preset's hyperparameters that the learner has."""
    from anyshot.learners.catalogue import hyperparameters_of

    known = hyperparameters_of(learner).__dataclass_fields__
    return {name: value for name, value in preset.hyperparameters.items() if name in known}


def _network_settings(network: Mapping[str, Any]) -> dict[str, Any]:
    from anyshot.networks import NETWORKS

    defaults = keyword_defaults(NETWORKS.find(network["kind"]).load())
    return {f"network.{name}": value for name, value in {"kind": network["kind"], **defaults, **network}.items()}


def _unknown(name: str, known: Mapping[str, Any]) -> str:
    part, _, short = name.partition(".")
    if part not in PARTS:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"settings begin with {', '.join(f'{part}.' for part in PARTS)}"
        return f"there is no setting {name!r}; {hint}"
    shorts = [known_name.partition(".")[2] for known_name in known if known_name.startswith(f"{part}.")]
    near = difflib.get_close_matches(short, shorts, 1)
    hint = f"did you mean {part}.{near[0]}?" if near else f"{part} has {', '.join(shorts)}"
    return f"there is no setting {name!r}; {hint}"


def _parse(text: str) -> Any:
    if text.lower() in ("none", "null"):
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if "," in text:
        return tuple(_parse(part) for part in text.split(",") if part)
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (int, float)) else text


def _as_its_default(value: Any, default: Any) -> Any:
    """A whole number where a float belongs becomes one, a single value where several belong becomes a tuple."""
    if isinstance(default, float) and type(value) is int:
        return float(value)
    if isinstance(default, tuple) and not isinstance(value, tuple):
        return tuple(value) if isinstance(value, list) else (value,)
    return value
