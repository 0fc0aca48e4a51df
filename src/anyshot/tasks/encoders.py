"""Encoders make one array per example of what people have; here, by a function of the user's own, with a cache."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from anyshot.atomic import unfinished_folder
from anyshot.errors import DataError, InputError
from anyshot.inputs import check_finite, check_numeric
from anyshot.limits import MOST_SIZE, check_whole


@runtime_checkable
class Encoder(Protocol):
    """What makes inputs of examples. `FrameEncoder`, `ImageEncoder` and `FunctionEncoder` are such encoders."""

    def encode(self, examples: Any) -> np.ndarray:
        """One row per example, float32 or uint8."""
        ...

    def describe(self) -> dict[str, Any]:
        """What the rows depend on, in JSON values."""
        ...


@dataclass(frozen=True, eq=False)  # a function may be equal to others without a hash
class FunctionEncoder:
    """Encodes by a function of your own, such as sentence or image embeddings, and keeps its results on disk.

    Args:
        function: takes a list of examples and returns one row of numbers for each. It is called once for each
            different example, in this process and in later ones with the same cache.
        name: says what the rows depend on, such as the name and version of a model. Results are kept under this name:
            change it when the function changes.
        cache: the folder of the results, one file for each example; None keeps nothing.
        batch_size: the largest number of examples in one call. Results are written after each call.

    >>> encoder = FunctionEncoder(lambda texts: [[len(text), text.count(" ")] for text in texts], "lengths")
    >>> print(encoder.encode(["a b c", "ab"]))
    [[5. 2.]
     [2. 0.]]
    """

    function: Callable[[list[Any]], Any]
    name: str
    cache: str | Path | None = None
    batch_size: int = 256

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputError(f"function must take a list of examples, got {self.function!r}")
        if not isinstance(self.name, str) or not self.name:
            raise InputError(f"name must say what the function is, such as a model's name, got {self.name!r}")
        check_whole("batch_size", self.batch_size, 1, MOST_SIZE)

    def encode(self, examples: Any) -> np.ndarray:
        """One row per example, float32; rows of uint8 stay uint8.

        Args:
            examples: texts, bytes or arrays in a list, a pandas Series, or rows of an array.
        """
        if isinstance(examples, (str, bytes)) or not hasattr(examples, "__len__") or not len(examples):
            raise InputError(f"examples must be a list of at least one example, got {str(examples)[:100]!r}")
        listed = list(examples)
        keys = [_hash_example(self.name, number, example) for number, example in enumerate(listed)]
        different = dict(zip(keys, listed, strict=True))
        rows = {key: row for key in different if (row := self._read(key)) is not None}
        absent = [key for key in different if key not in rows]
        for start in range(0, len(absent), self.batch_size):
            keys_of_call = absent[start : start + self.batch_size]
            made = dict(zip(keys_of_call, self._call([different[key] for key in keys_of_call]), strict=True))
            self._write(made)
            rows |= made
        kinds = {(row.shape, row.dtype.name) for row in rows.values()}
        if len(kinds) > 1:
            raise InputError(
                f"the rows of {self.name} have different shapes or dtypes, {sorted(kinds)}; if the function has "
                "changed, give it another name"
            )
        return np.stack([rows[key] for key in keys])

    def describe(self) -> dict[str, Any]:
        """Its name; the function itself is not stored."""
        return {"encoder": "function", "name": self.name}

    def _call(self, examples: list[Any]) -> np.ndarray:
        made = np.asarray(self.function(examples))
        if made.ndim == 0 or len(made) != len(examples):
            raise InputError(
                f"the function of {self.name} must return one row for each example, got shape {made.shape} for "
                f"{len(examples)} examples"
            )
        what = f"what the function of {self.name} returned"
        check_numeric(what, made)
        check_finite(what, made)
        return made if made.dtype == np.uint8 else made.astype(np.float32)

    def _place(self, key: str) -> Path:
        return Path(self.cache or "") / key[:2] / f"{key[2:]}.npy"

    def _read(self, key: str) -> np.ndarray | None:
        """A row of the cache; None if it is not there, or damaged, for instance by a power cut."""
        if self.cache is None:
            return None
        try:
            with self._place(key).open("rb") as file:
                return np.lib.format.read_array(file, allow_pickle=False)
        except (OSError, EOFError, ValueError):
            return None

    def _write(self, rows: dict[str, np.ndarray]) -> None:
        if self.cache is None:
            return
        try:
            with unfinished_folder(Path(self.cache)) as folder:
                for key, row in rows.items():
                    np.save(folder / f"{key}.npy", row, allow_pickle=False)
                    self._place(key).parent.mkdir(exist_ok=True)
                    (folder / f"{key}.npy").replace(self._place(key))
        except OSError as error:
            raise DataError(f"cannot write to the cache {self.cache}: {error.strerror or error}") from error


def _hash_example(name: str, number: int, example: Any) -> str:
    """A SHA-256 of the content of an example, and of the name of the encoder."""
    if isinstance(example, str):
        head, content = "text", example.encode("utf-8", "surrogatepass")
    elif isinstance(example, bytes):
        head, content = "bytes", example
    else:
        try:
            array = np.asarray(example)
        except ValueError:  # a list of lists of different lengths
            array = np.asarray(None)
        if array.ndim == 0 or array.dtype.kind not in "biuf":
            raise InputError(f"examples[{number}] is {str(example)[:50]!r}; give texts, bytes or arrays of numbers")
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        head, content = f"{array.dtype.str} {array.shape}", array.tobytes()
    start = "\n".join([str(len(name)), name, head, ""])
    return hashlib.sha256(start.encode("utf-8", "surrogatepass") + content).hexdigest()
