"""Built arrays as memory-mapped files: built once, checked against their fingerprint whenever they are loaded."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from anyshot.errors import DataError
from anyshot.tasks.built import Built
from anyshot.tasks.fingerprint import array_sha256, fingerprint
from anyshot.tasks.unfinished import unfinished_folder

MANIFEST = "manifest.json"


class Damaged(Exception):
    """Why a folder of built arrays must not be used."""


def fingerprint_of(built: Built) -> str:
    """The fingerprint of a task set that was just built: of its arrays, its tasks' names and its offline split."""
    hashes = {name: array_sha256(array) for name, array in built.arrays.items()}
    return fingerprint(hashes, built.task_names, train_tasks=built.train_tasks)


def cached(folder: Path, key: dict[str, Any], build: Callable[[], Built]) -> tuple[Built, str]:
    """What is in `folder` if it is whole and of this key, else what `build` gives, which is then kept there.

    Returns:
        the built arrays, memory-mapped, and their fingerprint.
    """
    if folder.exists():
        try:
            return read(folder, key)
        except Damaged as why:
            print(f"{folder} is damaged ({why}) and is built anew", file=sys.stderr, flush=True)
            shutil.rmtree(folder, ignore_errors=True)
    built = build()
    write(folder, key, built)
    return read(folder, key)


def write(folder: Path, key: dict[str, Any], built: Built) -> None:
    """Write everything into an unfinished folder, flush it to the disk, then move it into place at once."""
    try:
        _write(folder, key, built)
    except OSError as error:
        megabytes = sum(array.nbytes for array in built.arrays.values()) / 1e6
        raise DataError(
            f"cannot write {folder.name} ({megabytes:.0f} MB) into the cache {folder.parent}: "
            f"{error.strerror or error}; set ANYSHOT_CACHE to a folder that can be written to and has room"
        ) from error


def _write(folder: Path, key: dict[str, Any], built: Built) -> None:
    manifest = {
        "key": key,
        "task_names": built.task_names,
        "train_tasks": built.train_tasks,
        "arrays": sorted(built.arrays),
        "fingerprint": fingerprint_of(built),
    }
    with unfinished_folder(folder.parent) as unfinished:
        for name, array in ((name, np.ascontiguousarray(array)) for name, array in built.arrays.items()):
            with (unfinished / f"{name}.npy").open("wb") as file:
                # As np.save does, but that reports a full disk without saying so.
                np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
                file.write(array.data)
                file.flush()
                os.fsync(file.fileno())
        with (unfinished / MANIFEST).open("w", encoding="utf-8") as text:
            json.dump(manifest, text, indent=1)
            text.flush()
            os.fsync(text.fileno())
        try:
            unfinished.replace(folder)
        except OSError:
            if not folder.exists():  # else another process was quicker, and what it wrote is as good
                raise


def read(folder: Path, key: dict[str, Any]) -> tuple[Built, str]:
    """The arrays in a folder, each verified by its SHA-256; raises `Damaged` if anything at all is not as written."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        arrays = {
            name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in manifest["arrays"]
        }
        names, train_tasks = tuple(map(str, manifest["task_names"])), int(manifest["train_tasks"])
        found, written = manifest["key"], manifest["fingerprint"]
    except Exception as error:  # a damaged header of an .npy file raises anything
        raise Damaged(f"{type(error).__name__}: {error}") from error
    if found != json.loads(json.dumps(key)):
        raise Damaged(f"it holds {found}, not {key}")
    built = Built(arrays, names, train_tasks)
    if fingerprint_of(built) != written:
        raise Damaged("its content does not have the fingerprint it was written with")
    return built, written
