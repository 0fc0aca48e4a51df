"""Arguments that several commands share, as types that tyro reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from anyshot.errors import InputError
from anyshot.folders import check_folder
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


def _parsed(metavar: str, parse: Callable[[list[str]], Any], right: str, nargs: Any = 1) -> Any:
    """An option that may be left out. What cannot be parsed is answered with `right`, and not with all types tried."""

    def read(words: list[str]) -> Any:
        try:
            return parse(words)
        except InputError:
            raise
        except ValueError as error:
            raise ValueError(f"it must be {right}, got {' '.join(words) or 'nothing'}") from error

    return PrimitiveConstructorSpec[Any](
        nargs=nargs,
        metavar=metavar,
        instance_from_str=read,
        is_instance=lambda value: True,
        str_from_instance=lambda value: [str(value)],
    )


def _hosts(words: list[str]) -> str | tuple[str, int, int]:
    if words == ["auto"]:
        return "auto"
    address, count, number = words
    return address, int(count), int(number)


def _folder(words: list[str]) -> Path:
    return check_folder("--out", words[0])


_number = _parsed("INT", lambda words: int(words[0]), "a whole number")
_share = _parsed("FLOAT", lambda words: float(words[0]), "a number")
_devices = _parsed("N|auto", lambda words: words[0] if words[0] == "auto" else int(words[0]), "a whole number or auto")
_all_hosts = _parsed(
    "auto|HOST:PORT COUNT NUMBER", _hosts, "auto, or HOST:PORT and two whole numbers: how many, and which", "*"
)
OutFolder = Annotated[Path, _parsed("DIR", _folder, "a folder on this machine or on a network file system")]
Count = Annotated[int | None, _number, tyro.conf.arg(help_behavior_hint=hide_none)]
Gpus = Annotated[float | None, _share, tyro.conf.arg(help_behavior_hint=hide_none)]
Devices = Annotated[int | Literal["auto"] | None, _devices, tyro.conf.arg(help_behavior_hint=hide_none)]
Hosts = Annotated[
    Literal["auto"] | tuple[str, int, int] | None, _all_hosts, tyro.conf.arg(help_behavior_hint=hide_none)
]
Folders = Annotated[
    tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DIR...", help_behavior_hint="(one or more)")
]
Against = Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint=hide_none)]
OutFile = Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint=hide_none)]
Settings = Annotated[
    tuple[tuple[str, ...], ...], tyro.conf.arg(name="set", metavar="NAME=VALUE ..."), tyro.conf.UseAppendAction
]
