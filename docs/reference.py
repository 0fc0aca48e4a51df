"""Writes docs/settings.md from the settings' own definitions: `python docs/reference.py`, or `make docs`."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from docstring_parser import parse
from pydantic import BaseModel

from anyshot.runs.networks import NETWORKS
from anyshot.runs.offline_presets import OFFLINE_PRESETS
from anyshot.runs.presets import PRESETS
from anyshot.runs.settings import OfflineSettings, Settings

# A title, the command that takes them, the model, and the presets as (settings, sentence) by name.
CHAPTERS: list[tuple[str, str, type[BaseModel], dict[str, tuple[Any, str]]]] = [
    ("Online", "anyshot run", Settings, PRESETS),
    ("Offline", "anyshot offline", OfflineSettings, OFFLINE_PRESETS),
]
PAGE = Path(__file__).parent / "settings.md"
HEAD = """# Settings

Generated from the code by `make docs`; do not edit. A setting is a flag of the command (`--protocol.max-shots 10`), a
field in Python (`settings.protocol.max_shots`) and an entry of `experiment.json` in the run folder. What is yes or no
is `--protocol.advance` or `--protocol.no-advance`. A preset gives all of them; flags change some. A name or a value
that is not one of these is refused before any work.
"""
WORDS = {int: "whole number", float: "number", bool: "yes or no", str: "text", type(None): "none"}


def settings_page() -> str:
    """All of docs/settings.md."""
    parts = [HEAD]
    for title, command, model, presets in CHAPTERS:
        parts += [f"## {title}: `{command}`\n", *(_group(name, model) for name in model.model_fields)]
        parts.append("### Presets\n\nWhat each changes of the defaults above.\n")
        parts += [_preset(name, told, settings, model()) for name, (settings, told) in presets.items()]
    kinds = [f"| `{name}` | {kind.told} | {kind.dimensions} |" for name, kind in NETWORKS.items()]
    parts.append(_table("## Networks: `network.kind`\n", "| kind | for | dimensions of an example |", kinds))
    return "\n".join(parts)


def _group(part: str, model: type[BaseModel]) -> str:
    kind: Any = model.model_fields[part].annotation
    described = parse(kind.__doc__)
    told = {parameter.arg_name: " ".join((parameter.description or "").split()) for parameter in described.params}
    types_, values = get_type_hints(kind), getattr(model(), part)
    rows = [
        f"| `{part}.{field.name}` | {_type(types_[field.name])} | {_value(getattr(values, field.name))} "
        f"| {told[field.name]} |"
        for field in dataclasses.fields(kind)
    ]
    return _table(f"### {part}\n\n{described.short_description}\n", "| setting | value | default | meaning |", rows)


def _preset(name: str, told: str, settings: BaseModel, default: BaseModel) -> str:
    changed = ", ".join(f"`{setting}` {_value(value)}" for setting, value in _differing(settings, default))
    return f"**`{name}`** ({told}): {changed or 'nothing'}.\n"


def _differing(settings: BaseModel, default: BaseModel) -> Iterator[tuple[str, Any]]:
    for part in type(settings).model_fields:
        ours, usual = getattr(settings, part), getattr(default, part)
        for field in dataclasses.fields(ours):
            if getattr(ours, field.name) != getattr(usual, field.name):
                yield f"{part}.{field.name}", getattr(ours, field.name)


def _table(above: str, header: str, rows: list[str]) -> str:
    rule = "|" + " --- |" * (header.count("|") - 1)
    return "\n".join([above, header, rule, *rows, ""])


def _type(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(hint))
    if isinstance(hint, types.UnionType):
        return " or ".join(_type(one) for one in get_args(hint))
    if get_origin(hint) is tuple:
        return f"{_type(get_args(hint)[0])}s"
    if get_origin(hint) is dict:
        return f"{_type(get_args(hint)[1])}s by name"
    return WORDS[hint]


def _value(value: Any) -> str:
    if value is None or value in ({}, ()):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(map(str, value)) if isinstance(value, tuple) else f"{value}"


if __name__ == "__main__":
    PAGE.write_text(settings_page(), "utf-8")
