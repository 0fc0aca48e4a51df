"""Raw data files: taken from `$ANYSHOT_DATA`, else from the user's cache, else downloaded into that cache.

A file is used only if the SHA-256 of its content is right, whatever its name. A download gets its final name when it is
complete and verified, and not before.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from anyshot.atomic import remove_unfinished, unfinished_folder
from anyshot.errors import DataError
from anyshot.tasks.content import DamagedFile, content_sha256
from anyshot.tasks.download import Failed, format_bytes, stream
from anyshot.tasks.progress import progress


@dataclass(frozen=True)
class DataFile:
    """One raw file.

    Attributes:
        folder: its folder under `$ANYSHOT_DATA` and in the cache.
        name: its official name.
        sha256: of its content, see `content_sha256`.
        bytes: usual size of the file; a mirror that sends more than ten times as much is given up.
        inside: what the content is: "file", "gzip" or "zip", see `content_sha256`.
        urls: mirrors, tried in turn; none if the file may not be redistributed.
        also: other paths under `$ANYSHOT_DATA`; for "gzip", a path without `.gz` is the uncompressed file.
        how_to_get: for a file without urls: what to get, and from whom; where to put it follows.
    """

    folder: str
    name: str
    sha256: str
    bytes: int
    inside: str = "file"
    urls: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    how_to_get: str = ""


def data_folder() -> Path | None:
    """The user's own folder of data, `$ANYSHOT_DATA`; None if it is not set."""
    folder = _folder_from("ANYSHOT_DATA")
    if folder is not None and not os.path.isdir(folder):  # noqa: PTH112 (Path.is_dir raises without permission)
        raise DataError(f"ANYSHOT_DATA is {folder}, which is not an existing folder; correct it or unset it")
    return folder


def cache_folder() -> Path:
    """The folder of downloads and built sets: `$ANYSHOT_CACHE`, else the usual place of the system."""
    folder = _folder_from("ANYSHOT_CACHE")
    if folder is not None:
        return folder
    import pooch

    return Path(pooch.os_cache("anyshot"))


def _folder_from(variable: str) -> Path | None:
    value = os.environ.get(variable)
    try:
        return Path(value).expanduser() if value else None
    except RuntimeError as error:  # ~user of an unknown user
        raise DataError(f"{variable} is {value}, whose user is unknown; correct it or unset it") from error


def _cached_path(file: DataFile) -> Path:
    return cache_folder() / "files" / file.folder / file.name


def find(file: DataFile) -> Path | None:
    """The first path that has the file under any of its names; None if there is none. The content is not checked."""
    folder = data_folder()
    places = [folder / name for name in (f"{file.folder}/{file.name}", file.name, *file.also)] if folder else []
    return next((place for place in [*places, _cached_path(file)] if path_exists(place) and place.is_file()), None)


def path_exists(path: Path) -> bool:
    """Whether the path exists; raises `DataError` if its folder may not be searched."""
    try:
        return path.exists()
    except OSError as error:
        raise DataError(f"cannot look for {path}: {error.strerror}; make its folder readable") from error


def explain_mismatch(path: Path, file: DataFile) -> str:
    """What is wrong with the content of a file, in a sentence; empty if nothing is."""
    mismatch = _mismatch(path, file)
    return mismatch and f"{path} is not the {file.name} of {file.folder}: {mismatch}; replace it by the official file"


def find_verified(file: DataFile) -> Path | None:
    """The path of the file, after its content was verified; None if there is none.

    A damaged file in the cache is deleted. A damaged file in `$ANYSHOT_DATA` raises `DataError`.
    """
    path = find(file)
    if path is None:
        return None
    try:
        before = path.stat()
        wrong = explain_mismatch(path, file)
        if not wrong:
            return path
        if path != _cached_path(file):
            raise DataError(wrong)
        # Another process may have put a good file there meanwhile: delete only what was read.
        if os.path.samestat(before, path.stat()):
            path.unlink()
    except FileNotFoundError:  # another process has just deleted the same bad file
        return None
    except OSError as error:
        raise _cannot_write(file, error) from error
    return None


def _mismatch(path: Path, file: DataFile) -> str:
    """How the content differs from what it should be; empty if it does not."""
    try:
        got = content_sha256(path, file.inside)
    except DamagedFile as error:
        got = f"none: {error.__cause__!r}"
    return "" if got == file.sha256 else f"its content should have SHA-256 {file.sha256}, but has {got}"


def fetch(file: DataFile, *, attempts: int = 3, timeout: float = 30.0, wait: float = 1.0) -> Path:
    """The path of the file, after its content was verified; downloads it if it is not here.

    Args:
        file: The file.
        attempts: How often each mirror is tried.
        timeout: Seconds without an answer, or with less than 1 KiB a second, after which an attempt is given up.
        wait: Seconds before the second attempt at a mirror; doubled before each further one.
    """
    remove_unfinished(cache_folder())
    path = find_verified(file)
    if path is not None:
        return path
    if not file.urls:
        raise explain_missing([file])
    try:
        return _download(file, attempts, timeout, wait)
    except OSError as error:
        raise _cannot_write(file, error) from error


def explain_missing(files: Sequence[DataFile]) -> DataError:
    """For files of one folder that have no mirror: what to get, from whom, and where to put it."""
    names, size = ", ".join(file.name for file in files), format_bytes(sum(file.bytes for file in files))
    how = " ".join(files[0].how_to_get.split()) or "ask its owners for it, and"
    return DataError(
        f"{names} of {files[0].folder} ({size}) {'is' if len(files) == 1 else 'are'} missing and may not be "
        f"redistributed; {how} {_where_to_put(*files)}"
    )


def _where_to_put(*files: DataFile) -> str:
    value = os.environ.get("ANYSHOT_DATA") or "not set; any folder will do"
    names = ", ".join(file.name for file in files)
    return f"put {names} into $ANYSHOT_DATA/{files[0].folder} (ANYSHOT_DATA is {value})"


def _cannot_write(file: DataFile, error: OSError) -> DataError:
    return DataError(
        f"cannot write {file.name} ({format_bytes(file.bytes)}) into the cache {cache_folder()}: "
        f"{error.strerror or error}; set ANYSHOT_CACHE to a folder that can be written to"
    )


def _download(file: DataFile, attempts: int, timeout: float, wait: float) -> Path:
    """Try the mirrors in turn. An `OSError` means that the cache cannot be written to."""
    target = _cached_path(file)
    target.parent.mkdir(parents=True, exist_ok=True)
    failures = {}
    most = 10 * file.bytes + (1 << 20)  # copies of a file may be compressed differently
    with unfinished_folder(cache_folder()) as unfinished:
        part = unfinished / file.name
        for url in file.urls:
            line = f"downloading {file.name} ({format_bytes(file.bytes)}) from {urlsplit(url).hostname}"
            with progress(line, file.bytes, download=True) as update:
                for attempt in range(attempts):
                    time.sleep(wait * 2 ** (attempt - 1) if attempt else 0)
                    try:
                        stream(url, part, most, timeout, update)
                        if wrong := _mismatch(part, file):
                            raise Failed(wrong)
                        return part.replace(target)
                    except Failed as failure:
                        failures[url] = failure
                        if failure.final:
                            break
    listed = ", ".join(f"{url} ({failure})" for url, failure in failures.items())
    raise DataError(f"cannot download {file.name}: {listed}; try again later, or {_where_to_put(file)}")
