"""Arguments that several commands share, as types that tyro reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from anyshot.learners.catalogue import LEARNERS
from anyshot.registry import Registry
from anyshot.runs.presets import PRESETS


class _Names(tuple[str, ...]):
    """Names that a shell completes. All others pass here, and the registry refuses them with the nearest one."""

    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        return True


def _name_in(registry: Registry) -> PrimitiveConstructorSpec[Any]:
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="NAME",
        instance_from_str=lambda words: words[0],
        is_instance=lambda value: value is None or isinstance(value, str),
        str_from_instance=lambda value: [str(value)],
        choices=_Names(registry),
    )


def hide_none(default: str) -> str:
    """What help says of a default; nothing of None, which the description explains."""
    return "" if default == "None" else f"(default: {default})"


LearnerName = Annotated[str | None, _name_in(LEARNERS), tyro.conf.arg(help_behavior_hint=hide_none)]
PresetName = Annotated[str | None, _name_in(PRESETS), tyro.conf.arg(help_behavior_hint=hide_none)]
Device = Literal["auto", "cpu", "gpu"]
Devices = Annotated[int | Literal["auto"] | None, tyro.conf.arg(metavar="N|auto", help_behavior_hint=hide_none)]
Hosts = Annotated[
    Literal["auto"] | tuple[str, int, int] | None,
    tyro.conf.arg(metavar="auto|HOST:PORT COUNT NUMBER", help_behavior_hint=hide_none),
]
Folders = Annotated[
    tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DIR...", help_behavior_hint="(one or more)")
]
Against = Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint=hide_none)]
OutFile = Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint=hide_none)]
Settings = Annotated[
    tuple[tuple[str, ...], ...], tyro.conf.arg(name="set", metavar="NAME=VALUE ..."), tyro.conf.UseAppendAction
]
