"""Built arrays as memory-mapped files: built once, checked against their fingerprint whenever they are loaded."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from anyshot.errors import DataError
from anyshot.tasks.built import Built
from anyshot.tasks.fingerprint import array_sha256, fingerprint
from anyshot.tasks.progress import tell
from anyshot.unfinished import unfinished_folder

MANIFEST = "manifest.json"


# What reading meets where something else is than was written; any other number says nothing about the content.
WRONG_PLACE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG)


class Damaged(Exception):
    """Why a folder of built arrays must not be used."""


class Other(Damaged):
    """It is whole, but not of the key that was asked for."""


def fingerprint_of(built: Built) -> str:
    """The fingerprint of a task set that was just built: of its arrays, its tasks' names and its offline split."""
    hashes = {name: array_sha256(array) for name, array in built.arrays.items()}
    return fingerprint(hashes, built.task_names, train_tasks=built.train_tasks)


def cached(
    folder: Path, key: dict[str, Any], build: Callable[[], Built], *, rebuild: bool = False
) -> tuple[Built, str]:
    """What is in `folder` if it is whole and of this key, else what `build` gives, which then replaces it.

    Args:
        folder: where it is kept.
        key: what it must have been written with.
        build: makes it.
        rebuild: whether to build and replace it even if it is whole.

    Returns:
        the built arrays, memory-mapped, and their fingerprint.
    """
    if not rebuild and (found := _found(folder, key)):
        return found
    try:
        with unfinished_folder(folder.parent):
            pass  # so that a cache that cannot be written to is known before minutes of work
    except OSError as error:
        raise _cannot_write(folder, error) from error
    write(folder, key, build())
    for _ in range(10):  # the first will do, unless other processes replace it all the time
        if found := _found(folder, key):
            return found
        time.sleep(0.05)
    raise DataError(f"{folder} was written and is not there, or damaged; check the disk of the cache and try again")


def _found(folder: Path, key: dict[str, Any]) -> tuple[Built, str] | None:
    """What is in the folder; None if nothing is, or nothing to be used, which is told."""
    while True:
        try:
            before = folder.lstat()
            return read(folder, key)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _cannot_read(folder, error) from error
        except Damaged as why:
            if _replaced(folder, before):
                continue
            tell(f"{folder} {'is of other data' if isinstance(why, Other) else 'is damaged'} ({why}) and is built anew")
            return None


def _replaced(folder: Path, before: os.stat_result) -> bool:
    """Whether another process has put something else there meanwhile, or is about to."""
    try:
        return not os.path.samestat(before, folder.lstat())
    except OSError:
        return True


def _cannot_read(folder: Path, error: OSError | MemoryError) -> DataError:
    why = (error.strerror if isinstance(error, OSError) else "") or str(error) or "not enough memory"
    return DataError(f"cannot read {folder}: {why}; nothing was changed, make that possible and try again")


def _cannot_write(folder: Path, error: OSError, size: str = "") -> DataError:
    return DataError(
        f"cannot write {folder.name}{size} into the cache {folder.parent}: {error.strerror or error}; "
        "set ANYSHOT_CACHE to a folder that can be written to and has room"
    )


def write(folder: Path, key: dict[str, Any], built: Built) -> None:
    """Write everything into an unfinished folder, flush it to the disk, then put it in the place of what is there."""
    try:
        with unfinished_folder(folder.parent) as unfinished:
            _write(unfinished / "new", key, built)
            _put(unfinished / "new", folder, aside=unfinished / "old")
    except OSError as error:
        megabytes = sum(array.nbytes for array in built.arrays.values()) / 1e6
        raise _cannot_write(folder, error, f" ({megabytes:.0f} MB)") from error


def _put(new: Path, folder: Path, aside: Path) -> None:
    """Each step is atomic, and whatever is there (a file, a link) goes as it is; `aside` is deleted by the caller."""
    with suppress(FileNotFoundError):
        folder.rename(aside)
    try:
        new.rename(folder)
    except OSError:
        if folder.exists():  # another process was quicker, and what it wrote is as good
            return
        if os.path.lexists(aside):
            aside.rename(folder)
        raise


def _write(folder: Path, key: dict[str, Any], built: Built) -> None:
    manifest = {
        "key": key,
        "task_names": built.task_names,
        "train_tasks": built.train_tasks,
        "arrays": sorted(built.arrays),
        "fingerprint": fingerprint_of(built),
    }
    folder.mkdir()
    for name, array in ((name, np.ascontiguousarray(array)) for name, array in built.arrays.items()):
        with (folder / f"{name}.npy").open("wb") as file:
            # As np.save does, but that reports a full disk without saying so.
            np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
            file.write(array.data)
            file.flush()
            os.fsync(file.fileno())
    with (folder / MANIFEST).open("w", encoding="utf-8") as text:
        json.dump(manifest, text, indent=1)
        text.flush()
        os.fsync(text.fileno())


def read(folder: Path, key: dict[str, Any] | None = None) -> tuple[Built, str]:
    """The arrays in a folder, each verified by its SHA-256; raises `Damaged` if anything at all is not as written.

    Without a key, whatever it was written with will do. What cannot be read for other reasons is a `DataError`.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        arrays = {
            name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in manifest["arrays"]
        }
        built = Built(arrays, tuple(map(str, manifest["task_names"])), int(manifest["train_tasks"]))
        found, written, got = manifest["key"], manifest["fingerprint"], fingerprint_of(built)
    except MemoryError as error:
        raise _cannot_read(folder, error) from error
    except Exception as error:  # a damaged header of an .npy file raises anything
        if isinstance(error, OSError) and error.errno not in WRONG_PLACE:
            raise _cannot_read(folder, error) from error
        raise Damaged(f"{type(error).__name__}: {error}") from error
    if got != written:
        raise Damaged("its content does not have the fingerprint it was written with")
    if key is not None and found != json.loads(json.dumps(key)):
        raise Other(f"it holds {found}, not {key}")
    return built, written
