"""Built task sets as memory-mapped files: built once, verified by their fingerprint each time they are loaded."""

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

from anyshot.atomic import unfinished_folder
from anyshot.errors import DataError
from anyshot.tasks.built import Built
from anyshot.tasks.progress import tell

MANIFEST = "manifest.json"

# Errors of reading that mean that a file is missing or not a file. Others (permissions, too many open files) say
# nothing about the content.
WRONG_PLACE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG)


class Damaged(Exception):
    """A folder of built arrays is not as it was written; the message says why."""


class OtherKey(Damaged):
    """A folder of built arrays is whole, but was written with another key."""


def load_or_build(
    folder: Path, key: dict[str, Any], build: Callable[[], Built], *, rebuild: bool = False
) -> tuple[Built, str]:
    """Read a folder of built arrays. If it is missing, damaged or of another key, build and write it first.

    Args:
        folder: the folder in the cache.
        key: what the folder must have been written with.
        build: builds the arrays.
        rebuild: build and replace the folder even if it is whole.

    Returns:
        the built arrays, memory-mapped, and their fingerprint.
    """
    if not rebuild and (found := _read_if_whole(folder, key)):
        return found
    try:
        with unfinished_folder(folder.parent):
            pass  # a cache that cannot be written to fails here, before minutes of work
    except OSError as error:
        raise _cannot_write(folder, error) from error
    write(folder, key, build())
    for _ in range(10):  # the first attempt succeeds unless other processes keep replacing the folder
        if found := _read_if_whole(folder, key):
            return found
        time.sleep(0.05)
    raise DataError(f"{folder} was written but is missing or damaged now; check the disk of the cache and try again")


def _read_if_whole(folder: Path, key: dict[str, Any]) -> tuple[Built, str] | None:
    """The content of the folder; None if there is nothing to use, with a line on standard error if it is damaged."""
    while True:
        try:
            before = folder.lstat()
            return read(folder, key)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _cannot_read(folder, error) from error
        except Damaged as why:
            if _was_replaced(folder, before):
                continue
            fault = "is of other data" if isinstance(why, OtherKey) else "is damaged"
            tell(f"{folder} {fault} ({why}) and is built again")
            return None


def _was_replaced(folder: Path, before: os.stat_result) -> bool:
    """Whether another process has replaced the folder since `before`, or is about to."""
    try:
        return not os.path.samestat(before, folder.lstat())
    except OSError:
        return True


def _cannot_read(folder: Path, error: OSError | MemoryError) -> DataError:
    why = (error.strerror if isinstance(error, OSError) else "") or str(error) or "not enough memory"
    return DataError(f"cannot read {folder}: {why}; nothing was changed, remove the cause and try again")


def _cannot_write(folder: Path, error: OSError, size: str = "") -> DataError:
    return DataError(
        f"cannot write {folder.name}{size} into the cache {folder.parent}: {error.strerror or error}; "
        "set ANYSHOT_CACHE to a folder that can be written to and has room"
    )


def write(folder: Path, key: dict[str, Any], built: Built) -> None:
    """Write the arrays into an unfinished folder, flush it to the disk, then move it to the place of `folder`."""
    try:
        with unfinished_folder(folder.parent) as unfinished:
            _write_files(unfinished / "new", key, built)
            _move(unfinished / "new", folder, aside=unfinished / "old")
    except OSError as error:
        megabytes = sum(array.nbytes for array in built.arrays.values()) / 1e6
        raise _cannot_write(folder, error, f" ({megabytes:.0f} MB)") from error


def _move(new: Path, folder: Path, aside: Path) -> None:
    """Replace `folder`, whatever it is (a file, a link), in two atomic steps; the caller deletes `aside`."""
    with suppress(FileNotFoundError):
        folder.rename(aside)
    try:
        new.rename(folder)
    except OSError:
        if folder.exists():  # another process was faster, and what it wrote is the same
            return
        if os.path.lexists(aside):
            aside.rename(folder)
        raise


def _write_files(folder: Path, key: dict[str, Any], built: Built) -> None:
    manifest = {
        "key": key,
        "task_names": built.task_names,
        "train_tasks": built.train_tasks,
        "arrays": sorted(built.arrays),
        "fingerprint": built.fingerprint(),
    }
    folder.mkdir()
    for name, array in ((name, np.ascontiguousarray(array)) for name, array in built.arrays.items()):
        with (folder / f"{name}.npy").open("wb") as file:
            # np.save would do the same, but its error for a full disk does not say that the disk is full.
            np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
            file.write(array.data)
            file.flush()
            os.fsync(file.fileno())
    with (folder / MANIFEST).open("w", encoding="utf-8") as text:
        json.dump(manifest, text, indent=1)
        text.flush()
        os.fsync(text.fileno())


def read(folder: Path, key: dict[str, Any] | None = None) -> tuple[Built, str]:
    """The arrays in a folder and their fingerprint, after all of it has been verified.

    Args:
        folder: the folder in the cache.
        key: what the folder must have been written with; by default any key is accepted.

    Raises:
        Damaged: the content is not as it was written, or of another key.
        DataError: the folder cannot be read, which says nothing about its content.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        arrays = {
            name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in manifest["arrays"]
        }
        built = Built(arrays, tuple(map(str, manifest["task_names"])), int(manifest["train_tasks"]))
        found_key, written, found = manifest["key"], manifest["fingerprint"], built.fingerprint()
    except MemoryError as error:
        raise _cannot_read(folder, error) from error
    except Exception as error:  # the damaged header of an .npy file may raise any exception
        if isinstance(error, OSError) and error.errno not in WRONG_PLACE:
            raise _cannot_read(folder, error) from error
        raise Damaged(f"{type(error).__name__}: {error}") from error
    if found != written:
        raise Damaged("its content does not have the fingerprint it was written with")
    if key is not None and found_key != json.loads(json.dumps(key)):
        raise OtherKey(f"it holds {found_key}, not {key}")
    return built, written
