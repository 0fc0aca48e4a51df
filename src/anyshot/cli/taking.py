"""What every command takes: its options and what may follow them, from the very functions that tyro reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import tyro

from anyshot.cli import COMMANDS


@dataclass(frozen=True)
class Taken:
    """What a command takes.

    Attributes:
        options: each option, with the words that may follow it: None if none does, () if anything may.
        words: what may stand there without an option.
        files: whether files and folders may.
    """

    options: dict[str, tuple[str, ...] | None]
    words: tuple[str, ...]
    files: bool


def commands() -> dict[str, Taken]:
    """Every command, and `data`'s subcommands as "data list"."""
    from anyshot.cli import data, offline, run
    from anyshot.cli.completion import SHELLS
    from anyshot.cli.running import Resume
    from anyshot.runs.offline_presets import OFFLINE_PRESETS
    from anyshot.runs.presets import PRESETS

    inner = {"list": data.list_sets, "fetch": data.fetch, "verify": data.verify, "show": data.show}
    found = {name: _taken(getattr(import_module(f"anyshot.cli.{name}"), name, None)) for name in COMMANDS}
    for name, module, presets in (("run", run, PRESETS), ("offline", offline, OFFLINE_PRESETS)):
        options = _taken(module.Options).options | _taken(Resume).options
        found[name] = Taken(options, tuple(presets), False)
    found["completion"] = Taken({"--help": None}, SHELLS, False)
    found["data"] = Taken({"--help": None}, tuple(inner), False)
    return found | {f"data {name}": _taken(target) for name, target in inner.items()}


def _taken(target: Any) -> Taken:
    options: dict[str, tuple[str, ...] | None] = {"--help": None}
    words: tuple[str, ...] = ()
    files = False
    for name, kind, marks in _arguments(target) if callable(target) else ():
        if tyro.conf.Positional in marks:
            words, files = words + _choices(kind), files or Path in _parts(kind)
        elif kind is bool:
            prefix, dot, last = name.rpartition(".")
            options |= {f"--{name}": None, f"--{prefix}{dot}no-{last}": None}
        else:
            options[f"--{name}"] = _choices(kind)
    return Taken(options, words, files)


def _arguments(target: Any, prefix: str = "") -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """Name, type and tyro's marks of each argument; those of a part are called part.name."""
    for name, hint in get_type_hints(target, include_extras=True).items():
        if name == "return":
            continue
        kind, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        called = next((mark.name for mark in marks if getattr(mark, "name", None)), name).replace("_", "-")
        if is_dataclass(kind):
            yield from _arguments(kind, f"{prefix}{called}.")
        else:
            yield prefix + called, kind, tuple(marks)


def _parts(kind: Any) -> tuple[Any, ...]:
    return (kind, *(part for inner in get_args(kind) for part in _parts(inner))) if get_args(kind) else (kind,)


def _choices(kind: Any) -> tuple[str, ...]:
    """The words of a Literal, also of one that may be None."""
    if get_origin(kind) is Literal:
        return tuple(map(str, get_args(kind)))
    return tuple(word for part in get_args(kind) if part is not NoneType for word in _choices(part))
