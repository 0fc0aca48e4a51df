"""Inputs on disk: rows of one dtype and shape in memory-mapped files, each row with its checksum."""

from __future__ import annotations

import mmap
import os
import threading
import zlib
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int64, UInt8

from anyshot.errors import DataError, InputError
from anyshot.runs.files import sync_folder, write_all

SEGMENTS = "segments"  # the folder of them
SMALLEST, LARGEST = 2**20, 2**28  # bytes of the first segment, and of all from the ninth on; each is twice the last
MOST_SEGMENTS = 2**16
CRC = 4  # bytes of a checksum


class Segments:
    """A long array of rows in the files `000000.bin`, `000001.bin`, ... of a folder.

    A file gets its full size when it is made and is sparse: what was never written takes no room. After the bytes of a
    row stands the CRC-32 of the bytes and the number of the row. A row that was erased is all zeros, its checksum too.
    One thread writes at a time. Others may read meanwhile.

    Args:
        folder: where the files are; made when the first row is written.
        dtype: of a row.
        shape: of a row.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     segments = Segments(Path(folder), np.dtype("uint8"), (2,))
        ...     segments.write(0, np.array([[1, 2], [3, 4], [5, 6]], np.uint8))
        ...     x, good = segments.read(np.array([2, 0]))
        >>> x.tolist(), good.tolist()
        ([[5, 6], [1, 2]], [True, True])
    """

    def __init__(self, folder: Path, dtype: np.dtype, shape: tuple[int, ...]) -> None:
        self.folder = folder
        self.dtype = dtype.newbyteorder("<")
        self.shape = shape
        self._size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        self._stride = self._size + CRC
        bytes_of_files = np.minimum(SMALLEST * 2 ** np.minimum(np.arange(MOST_SEGMENTS), 30), LARGEST)
        self._capacities = np.maximum(bytes_of_files // self._stride, 1)
        self._starts = np.cumsum(self._capacities) - self._capacities  # the first row of each file
        self._maps: dict[int, np.ndarray] = {}
        self._mapping = threading.Lock()

    def check(self, x: np.ndarray) -> None:
        """Refuse rows of another dtype or shape."""
        if (x.dtype, x.shape[1:]) != (self.dtype, self.shape):
            raise InputError(
                f"x must have rows of dtype {self.dtype} and shape {self.shape}, as the first example of the store, "
                f"got {x.dtype} and {x.shape[1:]}"
            )

    def write(self, first: int, x: np.ndarray) -> None:
        """Write rows from number `first` on, and wait until the disk has them."""
        block = np.empty((len(x), self._stride), np.uint8)
        block[:, : self._size] = np.ascontiguousarray(x, self.dtype).view(np.uint8).reshape(len(x), self._size)
        checksums = [checksum(row[: self._size], first + i) for i, row in enumerate(block)]
        block[:, self._size :] = np.array(checksums, "<u4")[:, None].view(np.uint8)
        self._put(first, block)

    def erase(self, first: int, count: int) -> None:
        """Overwrite rows with zeros, and wait until the disk has them."""
        for start in range(first, first + count, 4096):  # so that no more than that is in memory at a time
            self._put(start, np.zeros((min(4096, first + count - start), self._stride), np.uint8))

    def erase_from(self, end: int) -> None:
        """Remove all that was ever written from row `end` on, such as by a process that was killed."""
        last, place = self._place(end)
        remove_files(self.folder, last + 1)
        if self._path(last).exists():
            handle = os.open(self._path(last), os.O_RDWR | os.O_NOFOLLOW)
            try:
                os.ftruncate(handle, place * self._stride)  # what is cut off comes back as zeros
                os.ftruncate(handle, self._bytes(last))
                os.fsync(handle)
            finally:
                os.close(handle)

    def read(self, rows: Int64[np.ndarray, " n"]) -> tuple[np.ndarray, Bool[np.ndarray, " n"]]:
        """The rows, in the order asked for, and whether each is as it was written. No other row is touched."""
        x = np.empty((len(rows), self._size), np.uint8)
        good = np.empty(len(rows), bool)
        numbers = self._numbers(rows)
        for number in np.unique(numbers).tolist():
            (which,) = np.nonzero(numbers == number)
            block = self._map(number)[rows[which] - self._starts[number]]
            x[which] = block[:, : self._size]
            kept = block[:, self._size :].copy().view("<u4")[:, 0].tolist()
            for i, row, crc in zip(which.tolist(), rows[which].tolist(), kept, strict=True):
                good[i] = checksum(x[i], row) == crc
        return x.view(self.dtype).reshape(len(rows), *self.shape), good

    def path(self, row: int) -> Path:
        """The file that holds a row."""
        return self._path(self._place(row)[0])

    def _put(self, first: int, block: UInt8[np.ndarray, "n stride"]) -> None:
        """Write rows with their checksums, in as many files as they take."""
        while len(block):
            number, place = self._place(first)
            count = min(len(block), int(self._capacities[number]) - place)
            handle = self._open(number)
            try:
                os.lseek(handle, place * self._stride, os.SEEK_SET)
                write_all(handle, block[:count].tobytes())
                os.fsync(handle)
            finally:
                os.close(handle)
            first, block = first + count, block[count:]

    def _open(self, number: int) -> int:
        """Open a file to write in it, making it if it is not there."""
        path, size = self._path(number), self._bytes(number)
        if not self.folder.exists():
            self.folder.mkdir()
            sync_folder(self.folder.parent)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            if os.fstat(handle).st_size < size:
                os.ftruncate(handle, size)
                os.fsync(handle)
                sync_folder(self.folder)
        except BaseException:
            os.close(handle)
            raise
        return handle

    def _map(self, number: int) -> np.ndarray:
        """A file as rows of bytes; it is mapped once and shows what is written later, too."""
        with self._mapping:
            if number not in self._maps:
                path = self._path(number)
                try:
                    with path.open("rb") as file:
                        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                except (OSError, ValueError) as error:  # an empty file is a ValueError
                    raise _damaged(path, getattr(error, "strerror", None) or str(error)) from error
                if len(mapped) < self._bytes(number):
                    raise _damaged(path, f"it has {len(mapped)} bytes instead of {self._bytes(number)}")
                if hasattr(mapped, "madvise"):
                    mapped.madvise(mmap.MADV_RANDOM)  # do not read ahead: the next row asked for is anywhere
                count = int(self._capacities[number])
                self._maps[number] = np.frombuffer(mapped, np.uint8, count * self._stride).reshape(count, -1)
            return self._maps[number]

    def _numbers(self, rows: np.ndarray) -> np.ndarray:
        """The number of the file of each row."""
        return np.searchsorted(self._starts, rows, side="right") - 1

    def _place(self, row: int) -> tuple[int, int]:
        """The number of the file of a row, and the place of the row in it."""
        number = int(self._numbers(np.array([row]))[0])
        return number, row - int(self._starts[number])

    def _bytes(self, number: int) -> int:
        return int(self._capacities[number]) * self._stride

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}.bin"


def remove_files(folder: Path, first: int = 0) -> None:
    """Remove the files from number `first` on."""
    files = [path for path in folder.glob("[0-9]*.bin") if int(path.stem) >= first]
    for path in files:
        path.unlink()
    if files:
        sync_folder(folder)


def checksum(data: UInt8[np.ndarray, " size"], row: int) -> int:
    """The CRC-32 of a row's bytes, begun with its number, so that a row at the place of another is found; never 0."""
    return zlib.crc32(data.data, row & 0xFFFFFFFF) or 1


def _damaged(path: Path, why: str) -> DataError:
    return DataError(f"{path} cannot be read: {why}; put the whole folder back from a backup")
