"""Data frames with columns of all kinds, encoded to one vector of numbers per row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float32

from anyshot.errors import InputError
from anyshot.limits import MOST_SIZE, check_whole
from anyshot.tasks.columns import Column
from anyshot.tasks.labels import ReadLabels
from anyshot.tasks.own_arrays import SplitRows, name_tasks, read_task_labels, split_rows


@dataclass(frozen=True)
class FrameEncoder:
    """Makes one vector of float32 of each row of a pandas DataFrame.

    - Numbers, dates and durations are scaled to mean 0 and standard deviation 1; a missing one becomes the mean.
    - Booleans are -1 and 1, a missing one is 0.
    - Categories are one column each, of zeros and ones. One that is new to the encoder is zeros only.
    - Strings are categories; but text if they have more than 50 different values, or if most of them differ and have a
      space. The words of a text are hashed to a fixed number of columns.
    - A column in which values were missing gets one more column that says where.

    Columns are found by their names, in any order. Columns that the encoder was not fitted on are ignored.

    Attributes:
        columns: how each column is encoded.

    >>> frame = pd.DataFrame({"age": [30, None, 50], "city": ["Bari", "Oslo", "Bari"]})
    >>> encoder = FrameEncoder.fit(frame)
    >>> print(encoder.column_names)
    ['age', 'age missing', 'city=Bari', 'city=Oslo']
    >>> print(encoder.encode(pd.DataFrame({"city": ["Rome"], "age": [60], "name": ["Ada"]})))
    [[2. 0. 0. 0.]]
    """

    columns: tuple[Column, ...]

    @classmethod
    def fit(
        cls,
        frame: pd.DataFrame,
        *,
        kinds: Mapping[str, str] | None = None,
        words: int = 256,
        name: str = "frame",
    ) -> FrameEncoder:
        """An encoder for frames like this one.

        Args:
            frame: values of all columns; its rows may be in any order.
            kinds: of columns that are not what they look like: "number", "boolean", "date", "duration", "category" or
                "text". Whole numbers may be a category, strings a category or a text.
            words: the number of columns that the words of a text are hashed to.
            name: of the frame, for sentences.
        """
        check_whole("words", words, 1, MOST_SIZE)
        named = _name_columns(frame, name)
        if not len(named):
            raise InputError(f"{name} has no rows; give at least one")
        if unknown := (kinds or {}).keys() - set(named.columns):
            raise InputError(f"kinds names the column {min(unknown)!r}, but {_list_columns(name, frame)}")
        columns = tuple(Column.fit(named[column], (kinds or {}).get(column), words) for column in named.columns)
        if not any(column.names for column in columns):
            raise InputError(f"{name} has no column with values to encode; {_list_columns('it', frame)}")
        return cls(columns)

    @property
    def column_names(self) -> list[str]:
        """What each number of an encoded row means."""
        return [name for column in self.columns for name in column.names]

    def encode(self, examples: pd.DataFrame, name: str = "frame") -> Float32[np.ndarray, "n numbers"]:
        """One vector per row.

        Args:
            examples: a frame with the columns that the encoder was fitted on.
            name: of the frame, for sentences.
        """
        named = _name_columns(examples, name)
        _check_columns(examples, [column.name for column in self.columns], name)
        return np.concatenate([column.encode(named[column.name]) for column in self.columns], axis=1)

    def forget_categories(self, used: Bool[np.ndarray, " numbers"]) -> FrameEncoder:
        """The same encoder without the names of some categories. Their numbers stay, and are 0 from now on.

        Args:
            used: for each number of an encoded row, whether its category keeps its name; not used for other numbers.
        """
        columns, start = [], 0
        for column in self.columns:
            columns.append(column.forget_categories(used[start : start + len(column.names)]))
            start += len(column.names)
        return FrameEncoder(tuple(columns))

    def describe(self) -> dict[str, Any]:
        """Everything that the encoder knows, in JSON values."""
        columns = [asdict(column) | {"categories": list(column.categories)} for column in self.columns]
        return {"encoder": "frame", "columns": columns}

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> FrameEncoder:
        """The encoder that `describe` described."""
        try:
            if description["encoder"] != "frame":
                raise KeyError("frame")
            columns = description["columns"]
            return cls(tuple(Column(**column | {"categories": tuple(column["categories"])}) for column in columns))
        except (KeyError, TypeError) as error:
            raise InputError(
                f"description must be that of a FrameEncoder, got {str(description)[:200]} ({error})"
            ) from error


def read_frames(
    frames: Any,
    target: str | Sequence[str],
    encoder: FrameEncoder | None,
    kinds: Mapping[str, str] | None,
    test_size: Any,
    seed: Any,
) -> tuple[FrameEncoder, dict[str, np.ndarray], dict[str, ReadLabels], SplitRows]:
    """The encoder, and the inputs, labels and rows of each task; see `TaskSet.from_frames`."""
    targets = [target] if isinstance(target, str) else list(target)
    inputs: dict[str, pd.DataFrame] = {}
    labels: dict[str, ReadLabels] = {}
    for task, frame in name_tasks("frames", frames, "DataFrame").items():
        what = f"the frame of task {task!r}"
        named = _name_columns(frame, what)
        _check_columns(frame, targets, f"target names a column that is missing: {what}")
        chosen = named[targets[0]] if isinstance(target, str) else named[targets]
        inputs[task] = named.drop(columns=targets)
        labels[task] = read_task_labels(task, chosen, len(named), inputs[task].shape)
        inputs[task] = inputs[task][labels[task].labelled]
    split = split_rows(list(inputs), [len(frame) for frame in inputs.values()], test_size, seed)
    if encoder is None:
        encoder = FrameEncoder.fit(_join_train_rows(inputs, split), kinds=kinds)
    elif kinds is not None:
        raise InputError("kinds and encoder cannot both be given; the encoder knows its kinds")
    encoded = {task: encoder.encode(frame, f"the frame of task {task!r}") for task, frame in inputs.items()}
    return encoder, encoded, labels, split


def _join_train_rows(frames: Mapping[str, pd.DataFrame], split: SplitRows) -> pd.DataFrame:
    columns = list(next(iter(frames.values())).columns)
    start, parts = 0, []
    for number, (task, frame) in enumerate(frames.items()):
        _check_columns(frame, columns, f"the frame of task {task!r}")
        count = split.train_rows.shape[1] if split.train_counts is None else split.train_counts[number]
        parts.append(frame[columns].iloc[split.train_rows[number, :count] - start])
        start += len(frame)
    return pd.concat(parts, ignore_index=True)


def _name_columns(frame: Any, name: str) -> pd.DataFrame:
    """The frame with strings as names of its columns."""
    if not isinstance(frame, pd.DataFrame):
        raise InputError(
            f"{name} must be a pandas DataFrame, got an object of type {type(frame).__name__}; see pd.DataFrame"
        )
    named = frame.set_axis([str(column) for column in frame.columns], axis=1)
    twice = named.columns[named.columns.duplicated()]
    if len(twice):
        raise InputError(f"{name} has two columns {twice[0]!r}; give every column a name of its own")
    return named


def _check_columns(frame: pd.DataFrame, wanted: Sequence[str], name: str) -> None:
    """Refuse a frame without some of these columns. The names that it has are shown as they are, such as 0 or '0'."""
    there = {str(column) for column in frame.columns}
    for column in wanted:
        if column not in there:
            raise InputError(f"{name} has no column {column!r}; {_list_columns('it', frame)}")


def _list_columns(name: str, frame: pd.DataFrame) -> str:
    shown = ", ".join(map(repr, frame.columns[:8]))
    return f"{name} has {shown or 'none'}" + (f" and {len(frame.columns) - 8} more" if len(frame.columns) > 8 else "")
