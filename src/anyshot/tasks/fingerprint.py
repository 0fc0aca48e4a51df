"""SHA-256 over the arrays of a task set: the same fingerprint means the same data, bit for bit."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

BLOCK = 16 * 2**20  # bytes; arrays are hashed in blocks on all cores, so that a gigabyte takes less than a second

# Fingerprints of the catalogue were published when these two arrays had other names. The names are hashed, so the
# hash keeps the old ones.
HASHED_NAMES = {"train_rows": "given", "test_rows": "held"}


def array_sha256(array: np.ndarray) -> str:
    """SHA-256 of an array's dtype, its shape, and the SHA-256 of each 16 MiB of its little-endian bytes.

    >>> print(array_sha256(np.arange(3, dtype=np.int32))[:16])
    74720dd9c00b65dd
    """
    array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    content = memoryview(array.reshape(-1).view(np.uint8).data)
    blocks = [content[start : start + BLOCK] for start in range(0, len(content), BLOCK)]
    with ThreadPoolExecutor() as threads:
        digests = threads.map(lambda block: hashlib.sha256(block).digest(), blocks)
        return hashlib.sha256(f"{array.dtype.str} {array.shape}\n".encode() + b"".join(digests)).hexdigest()


def hash_arrays(arrays: Mapping[str, np.ndarray], task_names: Sequence[str], train_tasks: int) -> str:
    """The fingerprint of a task set: of its arrays, the names of its tasks and its offline split.

    >>> rows = np.array([[0], [1]])
    >>> print(hash_arrays({"x": np.zeros(2), "train_rows": rows}, ["a", "b"], train_tasks=1)[:16])
    37e2ec5bae2591f0
    """
    hashes = {name: array_sha256(array) for name, array in arrays.items()}
    return hash_lines(hashes, task_names, train_tasks=train_tasks)


def hash_lines(hashes: Mapping[str, str], task_names: Sequence[str], **settings: Any) -> str:
    """One SHA-256 of several hashes with their names, of the names of tasks, and of settings."""
    named = {HASHED_NAMES.get(name, name): value for name, value in hashes.items()}
    lines = [f"{name} {named[name]}" for name in sorted(named)] + [f"task {name}" for name in task_names]
    lines += [f"{name} = {settings[name]}" for name in sorted(settings)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
