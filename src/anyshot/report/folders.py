"""Run folders found and opened: what online and offline runs have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyshot.errors import DataError, InputError
from anyshot.runs.files import Damaged, unsealed
from anyshot.runs.reading import EVENTS, EXPERIMENT, read_experiment, read_summary
from anyshot.runs.settings import OfflineSettings, Settings, any_settings_from


@dataclass(frozen=True)
class Opened:
    """What every run folder holds.

    Attributes:
        folder: where it is.
        learner: the method.
        seed: of all that is random.
        settings: but the method and the seed.
        fingerprint: of the task set.
        environment: where the run was opened, one entry each time; empty if that file is missing or damaged.
        finished: whether it has come to its end.
    """

    folder: Path
    learner: str
    seed: int
    settings: Settings | OfflineSettings
    fingerprint: str
    environment: tuple[dict[str, Any], ...]
    finished: bool


def opened(folder: Path) -> Opened:
    """Open one run folder; it need not be finished, nor have checkpoints."""
    experiment = read_experiment(folder)
    try:
        settings = any_settings_from(experiment["settings"])
        learner, seed, fingerprint = (experiment[name] for name in ("learner", "seed", "fingerprint"))
    except (InputError, KeyError, TypeError) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise DataError(f"{folder / EXPERIMENT} is of no run that this version knows: {what}") from error
    return Opened(folder, learner, seed, settings, fingerprint, _environment(folder), read_summary(folder) is not None)


def run_folders(places: Sequence[Path]) -> list[Path]:
    """The run folders among these folders and up to two levels in them, each once."""
    if not places:
        raise InputError("a run folder is missing; give one or more, or a folder that holds some")
    found: dict[Path, Path] = {}
    for place in places:
        if not place.is_dir():
            raise InputError(f"{place} is " + ("a file, no run folder" if place.exists() else "not there"))
        here = (
            _in(place, "") or _in(place, "*/") or _in(place, "*/*/")
        )  # the last as the demo and `reproduce` have them
        if not here:
            raise InputError(f"{place} is no run folder and holds none: there is no {EXPERIMENT} in it")
        for folder in here:
            found.setdefault(folder.resolve(), folder)
    return list(found.values())


def _in(place: Path, depth: str) -> list[Path]:
    return [file.parent for file in sorted(place.glob(f"{depth}{EXPERIMENT}")) if file.is_file()]


def check_line(folder: Path, line: str, event: dict[str, Any], needed: dict[str, type]) -> None:
    """Refuse a line of the event log that lacks one of the values it needs, or has another kind of it."""
    for name, kind in needed.items():
        value = event.get(name)
        right = isinstance(value, (int, float) if kind is float else kind)
        if not right or (isinstance(value, bool) and kind is not bool):
            raise DataError(
                f"{folder / EVENTS}: {line} has {name} {value!r}, which no run writes; start the run again to have it "
                "restored"
            )


def _environment(folder: Path) -> tuple[dict[str, Any], ...]:
    """Where the run was opened; it is told, but nothing depends on it."""
    try:
        return tuple(unsealed((folder / "environment.json").read_bytes()))
    except (Damaged, OSError, TypeError):
        return ()
