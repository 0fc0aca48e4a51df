"""Checkpoints: safetensors and JSON, each file known by its SHA-256, moved into place whole, verified when loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as decoded
from safetensors.numpy import save as encoded

from anyshot.atomic import unfinished_folder
from anyshot.errors import DataError, InputError
from anyshot.runs.files import Damaged, sealed, sha256, sync_folder, unsealed, write_durably, writing

FORMAT = 2  # format 1 did not say which experiment a checkpoint belongs to
KEEP = 2  # generations: if the newest turns out to be damaged, there is one before
STATE, EVENTS, INFO, MANIFEST = "state.safetensors", "events.jsonl", "info.json", "manifest.json"
DTYPES = ("bool", *(f"{kind}int{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)), "float16", "float32")
DTYPES += ("float64", "complex64", "bfloat16")


@dataclass(frozen=True)
class Checkpoint:
    """A run at one moment."""

    number: int  # how far the run was; larger is later
    arrays: dict[str, np.ndarray]
    info: dict[str, Any]  # small JSON
    events: bytes  # the event log as it was


def save(folder: Path, checkpoint: Checkpoint, experiment_sha256: str, keep: int = KEEP) -> None:
    """Add a checkpoint to `folder` as the last one and remove all but it and the `keep - 1` before.

    Whatever happens on the way, the earlier ones stay good and nothing half-written has the name of a checkpoint.

    Args:
        folder: where checkpoints are.
        checkpoint: what to save.
        experiment_sha256: of the `experiment.json` that it belongs to.
        keep: how many to keep.
    """
    if checkpoint.number < 0:
        raise InputError(f"a checkpoint's number must not be negative, got {checkpoint.number}")
    if keep < 1:
        raise InputError(f"keep must be at least 1, got {keep}")
    files = {
        STATE: _encoded(checkpoint.arrays),
        EVENTS: checkpoint.events,
        INFO: json.dumps(checkpoint.info, indent=1, allow_nan=False).encode(),
    }
    manifest = {
        "format": FORMAT,
        "number": checkpoint.number,
        "experiment_sha256": experiment_sha256,
        "files": {name: {"bytes": len(data), "sha256": sha256(data)} for name, data in files.items()},
    }
    with writing(folder):
        with unfinished_folder(folder) as unfinished:
            for name, data in files.items():
                write_durably(unfinished / name, data)
            write_durably(unfinished / MANIFEST, sealed(manifest))
            sync_folder(unfinished)
            place = folder / _name(checkpoint.number)
            if place.exists():  # the run has come here before, and went back
                _remove(folder, [checkpoint.number])
            unfinished.replace(place)
        sync_folder(folder)
    tidy(folder, checkpoint.number, keep)


def load(
    folder: Path, experiment_sha256: str | None, warn: Callable[[str], None], number: int | None = None
) -> Checkpoint | None:
    """The newest checkpoint that is exactly as it was written, or None if there are no checkpoints.

    Args:
        folder: where `save` put them.
        experiment_sha256: that they must belong to; None for folders of format 1, whose checkpoints do not say it.
        warn: called with one sentence for each one that cannot be used.
        number: of the one wanted; by default the newest.

    Raises:
        DataError: there are checkpoints, but none can be used.
    """
    numbers = list_checkpoints(folder)
    if number is not None and number not in numbers:
        there = f"there are {', '.join(map(str, numbers))}" if numbers else "there are none"
        raise InputError(f"checkpoint is {number}, but {folder} does not have it; {there}")
    reasons = []
    for one in numbers if number is None else [number]:
        try:
            return _read(folder, one, experiment_sha256)
        except Damaged as why:
            reasons.append(str(why))
            warn(f"checkpoint {folder / _name(one)} is damaged ({why}) and is not used")
    if reasons:
        if number is not None:
            raise DataError(f"checkpoint {number} in {folder} cannot be used ({reasons[0]}); take another one")
        raise DataError(
            f"none of the {len(reasons)} checkpoints in {folder} can be used ({reasons[0]}); bring back a copy of that "
            "folder, or delete it to start the run from the beginning"
        )
    return None


def tidy(folder: Path, number: int, keep: int = KEEP) -> None:
    """Make `number` the last of `keep` checkpoints at most; the run is there now and will come to later ones again.

    `save` ends with this. Whoever goes on from a checkpoint does it, too: the process may have been killed before it
    was done, and a damaged one must not count as a generation.
    """
    numbers = list_checkpoints(folder)
    kept = [earlier for earlier in numbers if earlier <= number][:keep]
    with writing(folder):
        _remove(folder, [number for number in numbers if number not in kept])


def _name(number: int) -> str:
    return f"{number:010d}"


def list_checkpoints(folder: Path) -> list[int]:
    """The checkpoints' numbers, newest first."""
    if not folder.is_dir():
        return []
    names = [path.name for path in folder.iterdir() if re.fullmatch("[0-9]{10,}", path.name)]
    return sorted((int(name) for name in names if name == _name(int(name))), reverse=True)


def _remove(folder: Path, numbers: Iterable[int]) -> None:
    for number in numbers:
        with unfinished_folder(folder) as unfinished:  # so that no half-removed one has the name of a checkpoint
            (folder / _name(number)).replace(unfinished / _name(number))
            sync_folder(folder)


def _read(folder: Path, number: int, experiment_sha256: str | None) -> Checkpoint:
    place, files = folder / _name(number), {}
    name = MANIFEST
    try:
        manifest = unsealed((place / MANIFEST).read_bytes())
        if manifest["format"] not in (1, FORMAT) or manifest["number"] != number:
            raise Damaged(f"it holds number {manifest['number']} in format {manifest['format']}, not {FORMAT}")
        if manifest.get("experiment_sha256") != experiment_sha256:
            raise Damaged("it belongs to another experiment")
        for name in (STATE, EVENTS, INFO):
            files[name] = (place / name).read_bytes()
            written, found = manifest["files"][name], len(files[name])
            if found != written["bytes"]:
                raise Damaged(f"{name} has {found} bytes of {written['bytes']}")
            if sha256(files[name]) != written["sha256"]:
                raise Damaged(f"{name} is not as it was written")
        info = json.loads(files[INFO])
        if not isinstance(info, dict):
            raise Damaged(f"{INFO} holds {type(info).__name__}, not an object")
        return Checkpoint(number, _decoded(files[STATE]), info, files[EVENTS])
    except OSError as error:
        raise Damaged(f"{name}: {error.strerror or error}") from error
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, SafetensorError) as error:
        raise Damaged(f"{name}: {type(error).__name__}: {error}") from error


def _encoded(arrays: dict[str, np.ndarray]) -> bytes:
    """The arrays as safetensors, each called by its dtype and its name.

    Its own dtype says too little, since numpy's side of safetensors has no bfloat16; and `__metadata__` alone would be
    no name that can be read back.
    """
    tensors = {}
    for name, array in arrays.items():
        if not name or not _is_text(name):
            raise InputError(f"an array's name must be non-empty text, got {name!r}")
        dtype = array.dtype.name
        if dtype not in DTYPES:
            raise InputError(f"array {name!r} has dtype {dtype}, which must be one of {', '.join(DTYPES)}")
        # Safetensors takes an array's memory as it lies, whatever its strides.
        tensors[f"{dtype}:{name}"] = np.asarray(array.view(np.uint16) if dtype == "bfloat16" else array, order="C")
    return encoded(tensors)


def _decoded(data: bytes) -> dict[str, np.ndarray]:
    arrays = {}
    for label, array in decoded(data).items():
        dtype, name = label.split(":", 1)
        arrays[name] = array.view(_bfloat16()) if dtype == "bfloat16" else array
    return arrays


def _bfloat16() -> np.dtype[Any]:
    import ml_dtypes  # comes with JAX; numpy has no such type of its own

    return np.dtype(ml_dtypes.bfloat16)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
