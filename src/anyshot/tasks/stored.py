"""Tasks in a folder of memory-mapped shards, for sets that fit neither on the device nor in memory.

The examples of a task lie side by side, so that drawing from it reads one place of the disk. Only the number of rows of
each task is kept in memory (16 bytes a task).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

import jax
import numpy as np
from jaxtyping import Int, Shaped

from anyshot.errors import DataError, InputError
from anyshot.tasks.fingerprint import array_sha256, hash_lines
from anyshot.tasks.rows import Part

MANIFEST, FORMAT = "tasks.json", 1
ARRAYS = ("x", "y", "names", "train_counts", "test_counts")  # of a shard; x and y: train, then test, of each task


class StoredTasks:
    """T tasks in a folder that `write_tasks` has written.

    An online experiment takes them like a `TaskSet`. Examples are read when they are drawn, while the device computes.

    Args:
        folder: of the tasks.

    Attributes:
        folder: of the tasks.
        name: of the task set.
        fingerprint: identifies the content, as it was when it was written.
        num_tasks: T, the number of tasks.
        num_classes: the largest class plus one; 0 if labels are targets of a regression.
        task_names: one name per task, read as needed.
    """

    unit = 1  # examples that belong together; pairs cannot be stored
    origin = None
    device_bytes = 0  # nothing but what is drawn is ever on the device

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        manifest = _read_manifest(self.folder)
        self.name, self.fingerprint = str(manifest["name"]), str(manifest["fingerprint"])
        self.num_classes = int(manifest["num_classes"])
        self._hashes = manifest["shards"]
        self._shards = [_open_shard(self.folder, number) for number in range(len(self._hashes))]
        self._counts = {
            part: np.concatenate([shard[f"{part}_counts"] for shard in self._shards]) for part in ("train", "test")
        }
        sizes = self._counts["train"].astype(np.int64) + self._counts["test"]
        self._starts = np.concatenate([[0], np.cumsum(sizes)])  # the first row of each task, over all shards
        self._shard_starts = np.concatenate([[0], np.cumsum([len(shard["x"]) for shard in self._shards])])
        if self._starts[-1] != self._shard_starts[-1]:
            raise DataError(f"{self.folder} is damaged: its tasks have {self._starts[-1]:,} examples, its files others")
        self.num_tasks = len(sizes)
        self.task_names = _Names([shard["names"] for shard in self._shards])

    @property
    def nbytes(self) -> int:
        """The size of all examples and labels on the disk."""
        return int(sum(shard[name].nbytes for shard in self._shards for name in ("x", "y")))

    def example(self) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
        """Shape and dtype of the input and of the label of one example."""
        first = self._shards[0]
        x, y = (jax.ShapeDtypeStruct(first[name].shape[1:], first[name].dtype) for name in ("x", "y"))
        return x, y

    def counts(self, part: Part = "train") -> Int[np.ndarray, " tasks"]:
        """The number of rows of each task."""
        return self._counts[part]

    def width(self, part: Part = "train") -> int:
        """The number of rows of the largest task."""
        return int(self._counts[part].max())

    def is_uneven(self, part: Part = "train") -> bool:
        """Whether tasks have different numbers of rows."""
        return bool(self._counts[part].min() < self._counts[part].max())

    def read(
        self, tasks: Int[np.ndarray, " n"], places: Int[np.ndarray, " n"], part: Part = "train"
    ) -> tuple[Shaped[np.ndarray, "n ..."], Shaped[np.ndarray, "n ..."]]:
        """Inputs and labels of examples.

        Args:
            tasks: the number of the task of each example.
            places: of each example among the rows of its task.
            part: "train" or "test".
        """
        rows = self._starts[tasks] + places + (self._counts["train"][tasks] if part == "test" else 0)
        order = np.argsort(rows, kind="stable")  # so that the disk is read from front to back
        rows = rows[order]
        cuts = np.searchsorted(rows, self._shard_starts)
        x, y = (np.empty((len(rows), *leaf.shape), leaf.dtype) for leaf in self.example())
        for number in np.flatnonzero(np.diff(cuts)):
            some = slice(cuts[number], cuts[number + 1])
            here, shard = rows[some] - self._shard_starts[number], self._shards[number]
            x[order[some]], y[order[some]] = shard["x"][here], shard["y"][here]
        return x, y

    def verify(self) -> None:
        """Read everything, and raise `DataError` if it is not as it was written."""
        for number, (shard, written) in enumerate(zip(self._shards, self._hashes, strict=True)):
            for name in ARRAYS:
                if array_sha256(shard[name]) != written[name]:
                    raise DataError(f"{self.folder / shard_name(number)}/{name}.npy is damaged; write the tasks again")

    def __repr__(self) -> str:
        return f"StoredTasks({str(self.folder)!r}): {self.num_tasks:,} tasks, {self._starts[-1]:,} examples"


class _Names(Sequence[str]):
    """The names of all tasks, read from the shards as needed."""

    def __init__(self, parts: Sequence[np.ndarray]) -> None:
        self._parts, self._starts = parts, np.concatenate([[0], np.cumsum([len(part) for part in parts])])

    def __len__(self) -> int:
        return int(self._starts[-1])

    @overload
    def __getitem__(self, task: int) -> str: ...
    @overload
    def __getitem__(self, task: slice) -> Sequence[str]: ...
    def __getitem__(self, task: int | slice) -> str | Sequence[str]:
        if isinstance(task, slice):
            return [self[number] for number in range(*task.indices(len(self)))]
        if not 0 <= task < len(self):
            raise IndexError(task)
        part = int(np.searchsorted(self._starts, task, side="right")) - 1
        return str(self._parts[part][task - self._starts[part]])


def shard_name(number: int) -> str:
    """The name of a shard's folder."""
    return f"shard-{number:05d}"


def fingerprint_of(shards: Sequence[dict[str, str]], name: str) -> str:
    """One SHA-256 for all shards."""
    hashes = {f"{shard_name(number)} {key}": shard[key] for number, shard in enumerate(shards) for key in ARRAYS}
    return hash_lines(hashes, [], name=name)


def _read_manifest(folder: Path) -> dict[str, Any]:
    place = folder / MANIFEST
    try:
        manifest: dict[str, Any] = json.loads(place.read_text("utf-8"))
        whole = fingerprint_of(manifest["shards"], manifest["name"]) == manifest["fingerprint"]
    except FileNotFoundError as error:
        raise InputError(f"{folder} holds no stored tasks (there is no {MANIFEST}); see write_tasks") from error
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DataError(f"{place} cannot be read: {error}; write the tasks again") from error
    if not whole or manifest.get("format") != FORMAT:
        raise DataError(f"{place} is damaged or of another version; write the tasks again")
    return manifest


def _open_shard(folder: Path, number: int) -> dict[str, np.ndarray]:
    place = folder / shard_name(number)
    try:
        return {name: np.load(place / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in ARRAYS}
    except (EOFError, OSError, ValueError) as error:  # ValueError: a file that is shorter than its header says
        raise DataError(f"{place} cannot be read: {error}; bring the folder back, or write the tasks again") from error
