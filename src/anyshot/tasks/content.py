"""Files known by their content: the SHA-256 of what is inside an archive, however it was packed."""

from __future__ import annotations

import gzip
import hashlib
import zipfile
from pathlib import Path
from typing import IO

from anyshot.errors import DataError, InputError


class DamagedFile(DataError):
    """A file that cannot be unpacked."""


def content_sha256(path: Path, inside: str) -> str:
    """The SHA-256, in hexadecimal, of the content of a file, however it was compressed.

    Args:
        path: The file.
        inside: "file" for its bytes; "gzip" for the uncompressed bytes (a path without `.gz` is uncompressed already);
            "zip" for the names and bytes of all members, sorted by name. Folders do not count as members, since
            re-packing adds or drops them.

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
        except Exception as error:  # damage raises many types: EOFError, zlib.error, struct.error, MemoryError
            raise DamagedFile(f"{path} is damaged ({type(error).__name__}: {error}); replace it") from error


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
    """Whether a member counts: not a folder, and not what macOS adds to archives."""
    return not (member.is_dir() or member.filename.startswith("__MACOSX/") or member.filename.endswith(".DS_Store"))
