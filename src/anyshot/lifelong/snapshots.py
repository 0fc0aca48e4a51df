"""Snapshots of what was learned: one safetensors file each, with JSON about it and no code."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from anyshot.errors import DataError, InputError
from anyshot.runs.files import replace_file

FORMAT = 1
KEPT = 3  # the newest ones; those with a tag stay as well


@dataclass(frozen=True)
class Snapshot:
    """What was learned at one moment.

    Attributes:
        number: 1, 2, 3, ... in the order in which they were made.
        tag: the name that was given to it, or "".
        path: of its file.
        about: the learner, the classes and the encoder, as JSON.
    """

    number: int
    tag: str
    path: Path
    about: dict[str, Any]


def write_snapshot(path: Path, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> None:
    """Write a file that is whole or not there, and that survives a power cut."""
    metadata = {"anyshot": json.dumps({"format": FORMAT, **about}, allow_nan=False)}
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, save({name: np.array(array, order="C") for name, array in arrays.items()}, metadata))


def read_snapshot(path: Path, *, arrays: bool = True) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of a snapshot (none if `arrays` is False) and what is said about it."""
    try:
        with safe_open(path, "numpy") as file:
            about = json.loads((file.metadata() or {})["anyshot"])
            found = {name: file.get_tensor(name) for name in file.keys()} if arrays else {}  # noqa: SIM118
    except FileNotFoundError as error:
        raise InputError(f"there is no snapshot {path}") from error
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise DataError(f"{path} is no snapshot of anyshot, or it is damaged; choose another: {error}") from error
    if about.get("format") != FORMAT:
        raise DataError(
            f"{path} has format {about.get('format')}, this version reads format {FORMAT}; use a newer anyshot"
        )
    return found, about


def list_snapshots(folder: Path) -> list[Snapshot]:
    """The snapshots in a folder, oldest first."""
    found = []
    for path in sorted(folder.glob("*.safetensors")):
        if re.fullmatch(r"\d{12}\.safetensors", path.name):
            about = read_snapshot(path, arrays=False)[1]
            found.append(Snapshot(int(path.stem), about.get("tag", ""), path, about))
    return found


def next_path(folder: Path) -> Path:
    """Where the next snapshot goes."""
    last = max((int(path.stem) for path in folder.glob("*.safetensors") if path.stem.isdigit()), default=0)
    return folder / f"{last + 1:012d}.safetensors"


def remove_old(folder: Path, keep: int = KEPT) -> None:
    """Remove all snapshots but the newest and those with a tag."""
    for snapshot in list_snapshots(folder)[:-keep]:
        if not snapshot.tag:
            snapshot.path.unlink()
