"""Snapshots of what was learned: one safetensors file each, with JSON about it and no code."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from anyshot.errors import DataError, InputError
from anyshot.runs.files import replace_file, sha256, sync_folder

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
    """Write a file that is whole or not there, and that survives a power cut. It carries hashes of its content."""
    content = {name: np.array(array, order="C") for name, array in arrays.items()}
    text = json.dumps({"format": FORMAT, **about, "arrays": hash_arrays(content)}, allow_nan=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, save(content, {"anyshot": text, "sha256": sha256(text.encode())}))


def read_snapshot(path: Path, *, arrays: bool = True) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of a snapshot (none if `arrays` is False) and what is said about it, as they were written."""
    try:
        with safe_open(path, "numpy") as file:
            metadata = file.metadata() or {}
            about = json.loads(metadata["anyshot"])
            found = {name: file.get_tensor(name) for name in file.keys()} if arrays else {}  # noqa: SIM118
    except FileNotFoundError as error:
        raise InputError(f"there is no snapshot {path}") from error
    except (SafetensorError, KeyError, ValueError, TypeError, OSError) as error:
        raise DataError(f"{path} is no snapshot of anyshot, or it is damaged; choose another: {error}") from error
    if not _is_whole(metadata, about, found if arrays else None):
        raise DataError(f"{path} is damaged: it is not as it was written; choose another")
    if about["format"] != FORMAT:
        raise DataError(f"{path} has format {about['format']}, this version reads format {FORMAT}; use a newer anyshot")
    return found, about


def list_paths(folder: Path) -> list[Path]:
    """The files of the snapshots in a folder, damaged ones too, oldest first."""
    return [path for path in sorted(folder.glob("*.safetensors")) if re.fullmatch(r"\d{12}", path.stem)]


def list_snapshots(folder: Path) -> list[Snapshot]:
    """The snapshots in a folder, oldest first, without those that cannot be read."""
    found = []
    for path in list_paths(folder):
        try:
            about = read_snapshot(path, arrays=False)[1]
        except DataError:
            continue
        found.append(Snapshot(int(path.stem), about.get("tag", ""), path, about))
    return found


def load_newest(folder: Path, load: Callable[[Path], bool]) -> bool:
    """Load the newest snapshot that can be loaded, with a warning if newer ones are damaged.

    Args:
        folder: of the snapshots.
        load: loads one and says whether it fits; raises `DataError` if it is damaged.

    Returns:
        Whether one was loaded.
    """
    errors, loaded = list[DataError](), None
    for path in reversed(list_paths(folder)):
        try:
            if load(path):
                loaded = path
                break
        except DataError as error:
            errors.append(error)
    if errors:
        instead = f"{loaded} is used instead" if loaded else "learning begins anew"
        warnings.warn(f"what was learned last cannot be used, {instead}: {errors[0]}", stacklevel=2)
    return loaded is not None


def next_path(folder: Path) -> Path:
    """Where the next snapshot goes."""
    last = max((int(path.stem) for path in folder.glob("*.safetensors") if path.stem.isdigit()), default=0)
    return folder / f"{last + 1:012d}.safetensors"


def remove_old(folder: Path, keep: int = KEPT) -> None:
    """Remove all snapshots but the newest and those with a tag."""
    for snapshot in list_snapshots(folder)[:-keep]:
        if not snapshot.tag:
            snapshot.path.unlink()


def remove_all(folder: Path) -> None:
    """Remove all snapshots, damaged ones too, and wait until the disk knows it."""
    for path in list_paths(folder):
        path.unlink()
    if folder.exists():
        sync_folder(folder)


def _is_whole(metadata: dict[str, str], about: Any, arrays: dict[str, np.ndarray] | None) -> bool:
    """Whether hashes are right. Snapshots of older versions have none, and format 1."""
    if not isinstance(about, dict):
        return False
    if "sha256" not in metadata:
        return "arrays" not in about and about.get("format") == 1
    if metadata["sha256"] != sha256(metadata["anyshot"].encode()):
        return False
    return arrays is None or about["arrays"] == hash_arrays(arrays)


def hash_arrays(arrays: dict[str, np.ndarray]) -> str:
    """The SHA-256 of the names, dtypes, shapes and bytes of arrays."""
    found = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        found.update(f"{name}\n{array.dtype.str}\n{array.shape}\n".encode())
        found.update(array.tobytes())
    return found.hexdigest()
