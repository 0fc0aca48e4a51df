"""Where raw data files come from: `$ANYSHOT_DATA`, else the user's cache, else a download into that cache.

Nothing is believed for its name: a file counts if the SHA-256 of what is inside it is right. A download gets its final
name whole and checked, or not at all.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from anyshot.errors import DataError, InputError
from anyshot.tasks.download import Failed, megabytes, stream
from anyshot.tasks.progress import progress
from anyshot.unfinished import remove_unfinished, unfinished_folder


class _Damaged(DataError):
    """A container that cannot be unpacked."""


@dataclass(frozen=True)
class DataFile:
    """One raw file: what it is called, how its content is known, where it comes from."""

    folder: str  # under $ANYSHOT_DATA and in the cache
    name: str  # its official one
    sha256: str  # of what is inside it
    bytes: int  # size of the usual container; a mirror that sends ten times as much is given up
    inside: str = "file"  # what is hashed: see `content_sha256`
    urls: tuple[str, ...] = ()  # mirrors, tried in turn; none if it may not be redistributed
    also: tuple[str, ...] = ()  # other paths under $ANYSHOT_DATA; for "gzip", one without .gz is the uncompressed file
    how_to_get: str = ""  # without urls: what to get and from whom


def data_folder() -> Path | None:
    """The user's own folder of data, `$ANYSHOT_DATA`, if set."""
    folder = _named_by("ANYSHOT_DATA")
    if folder is not None and not os.path.isdir(folder):  # noqa: PTH112 (Path.is_dir raises where it may not look)
        raise DataError(f"ANYSHOT_DATA is {folder}, which is not an existing folder; correct it or unset it")
    return folder


def cache_folder() -> Path:
    """Where downloads are kept: `$ANYSHOT_CACHE`, else the system's usual place."""
    folder = _named_by("ANYSHOT_CACHE")
    if folder is not None:
        return folder
    import pooch

    return Path(pooch.os_cache("anyshot"))


def _named_by(variable: str) -> Path | None:
    value = os.environ.get(variable)
    try:
        return Path(value).expanduser() if value else None
    except RuntimeError as error:  # ~somebody who is not known here
        raise DataError(f"{variable} is {value}, whose user is not known; correct it or unset it") from error


def content_sha256(path: Path, inside: str) -> str:
    """The SHA-256, in hexadecimal, of what a file holds, however it was compressed.

    Args:
        path: The file.
        inside: "file" for its bytes; "gzip" for the uncompressed bytes (a path without `.gz` is uncompressed already);
            "zip" for the SHA-256 of each member's name and of its bytes, in the order of the names. Folders are no
            members: re-packing adds or drops them.

    Example:
        >>> import gzip, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "a.gz")
        ...     _ = path.write_bytes(gzip.compress(b"abc"))
        ...     content_sha256(path, "gzip")
        'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'
    """
    if inside not in ("file", "gzip", "zip"):
        raise InputError(f'inside must be "file", "gzip" or "zip", got {inside!r}')
    try:
        raw = path.open("rb")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}; make it a file that can be read") from error
    with raw:
        try:
            if inside == "zip":
                return _zip_sha256(raw)
            if inside == "gzip" and path.suffix == ".gz":
                with gzip.GzipFile(fileobj=raw) as stream:
                    return hashlib.file_digest(stream, "sha256").hexdigest()
            return hashlib.file_digest(raw, "sha256").hexdigest()
        except Exception as error:  # damaged ones raise anything: EOFError, zlib.error, struct.error, MemoryError...
            raise _Damaged(f"{path} is damaged ({type(error).__name__}: {error}); replace it") from error


def _zip_sha256(raw: IO[bytes]) -> str:
    digest = hashlib.sha256()
    with zipfile.ZipFile(raw) as archive:
        for member in sorted((m for m in archive.infolist() if _is_content(m)), key=lambda m: m.filename):
            content = hashlib.sha256()
            with archive.open(member) as stream:
                while block := stream.read(1 << 20):
                    content.update(block)
            digest.update(hashlib.sha256(member.filename.encode()).digest() + content.digest())
    return digest.hexdigest()


def _is_content(member: zipfile.ZipInfo) -> bool:
    """Folders are no content, nor is what a Mac adds to every archive it makes."""
    return not (member.is_dir() or member.filename.startswith("__MACOSX/") or member.filename.endswith(".DS_Store"))


def _cached(file: DataFile) -> Path:
    return cache_folder() / "files" / file.folder / file.name


def find(file: DataFile) -> Path | None:
    """The first place that has the file under any of its names; its content is not looked at."""
    folder = data_folder()
    places = [folder / name for name in (f"{file.folder}/{file.name}", file.name, *file.also)] if folder else []
    return next((place for place in [*places, _cached(file)] if there(place) and place.is_file()), None)


def there(path: Path) -> bool:
    """Whether there is anything; a folder that may not be searched is an error rather than empty."""
    try:
        return path.exists()
    except OSError as error:
        raise DataError(f"cannot look for {path}: {error.strerror}; make its folder readable") from error


def wrong_with(path: Path, file: DataFile) -> str:
    """What is wrong with the content of a file that was found, in a sentence; empty if nothing is."""
    mismatch = _mismatch(path, file)
    return mismatch and f"{path} is not the {file.name} of {file.folder}: {mismatch}; replace it by the official file"


def verified(file: DataFile) -> Path | None:
    """Where the file is, its content checked; None if it is nowhere, or was damaged in our cache and thus deleted."""
    path = find(file)
    if path is None:
        return None
    try:
        before = path.stat()
        wrong = wrong_with(path, file)
        if not wrong:
            return path
        if path != _cached(file):
            raise DataError(wrong)
        # Another process may have put a good file there meanwhile: only what was read is deleted.
        if os.path.samestat(before, path.stat()):
            path.unlink()
    except FileNotFoundError:  # another process has just deleted the same bad file
        return None
    except OSError as error:
        raise _cannot_write(file, error) from error
    return None


def _mismatch(path: Path, file: DataFile) -> str:
    """What is wrong with the content; empty if nothing is."""
    try:
        got = content_sha256(path, file.inside)
    except _Damaged as error:
        got = f"none: {error.__cause__!r}"
    return "" if got == file.sha256 else f"its content should have SHA-256 {file.sha256}, but has {got}"


def fetch(file: DataFile, *, attempts: int = 3, timeout: float = 30.0, wait: float = 1.0) -> Path:
    """The file's place, its content checked; downloaded first if need be.

    Args:
        file: The file.
        attempts: How often each mirror is tried.
        timeout: Seconds without an answer, or with less than 1 KiB a second, after which an attempt is given up.
        wait: Seconds before the second attempt at a mirror; doubled before each further one.
    """
    remove_unfinished(cache_folder())
    path = verified(file)
    if path is not None:
        return path
    if not file.urls:
        raise missing([file])
    try:
        return _download(file, attempts, timeout, wait)
    except OSError as error:
        raise _cannot_write(file, error) from error


def missing(files: Sequence[DataFile]) -> DataError:
    """In three lines what to get, from whom, and where to put it, for files of one folder that have no mirror."""
    names, size = ", ".join(file.name for file in files), megabytes(sum(file.bytes for file in files))
    return DataError(
        f"{names} of {files[0].folder} ({size}) {'is' if len(files) == 1 else 'are'} missing and may not be "
        f"redistributed\n{' '.join(files[0].how_to_get.split()) or 'ask its owners for it'}\n{_by_hand(*files)}"
    )


def _by_hand(*files: DataFile) -> str:
    value = os.environ.get("ANYSHOT_DATA") or "not set: any folder will do"
    names = ", ".join(file.name for file in files)
    return f"put {names} into $ANYSHOT_DATA/{files[0].folder} (ANYSHOT_DATA is {value})"


def _cannot_write(file: DataFile, error: OSError) -> DataError:
    return DataError(
        f"cannot write {file.name} ({megabytes(file.bytes)}) into the cache {cache_folder()}: "
        f"{error.strerror or error}; set ANYSHOT_CACHE to a folder that can be written to"
    )


def _download(file: DataFile, attempts: int, timeout: float, wait: float) -> Path:
    """Try the mirrors in turn. An OSError is something on this side: the cache cannot be written to."""
    target = _cached(file)
    target.parent.mkdir(parents=True, exist_ok=True)
    failures = {}
    most = 10 * file.bytes + (1 << 20)  # containers differ in size, but not without end
    with unfinished_folder(cache_folder()) as unfinished:
        part = unfinished / file.name
        for url in file.urls:
            line = f"downloading {file.name} ({megabytes(file.bytes)}) from {urlsplit(url).hostname}"
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
    raise DataError(f"cannot download {file.name}: {listed}; try again later, or {_by_hand(file)}")
