"""Tasks and their labelled examples on disk: what was appended survives the process, what was deleted does not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64
from sqlalchemy import Connection

from anyshot.errors import DataError, InputError
from anyshot.lifelong import contents, queries, schema
from anyshot.lifelong.contents import Counts, Event, Examples, StoredTask
from anyshot.lifelong.database import Database, writing
from anyshot.lifelong.erasing import finish_erasing
from anyshot.lifelong.schema import Row, update_rows
from anyshot.lifelong.segments import SEGMENTS, Segments
from anyshot.runs.files import sync_folder
from anyshot.runs.lock import only_writer

DATABASE = "store.sqlite"


class DeletedError(InputError):
    """An input was asked for that has been deleted, perhaps by another thread a moment ago."""


def open_store(folder: Path) -> Store:
    """Open a store, or make a new one in a folder that has none. One process has it at a time.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, open_store(Path(folder)) as store:
        ...     task = store.add_task("loans-it", {"classes": ["ok", "bad"]})
        ...     ids = store.append(task, np.ones((2, 3), np.float32), np.array([0, 1]), [{}, {}])
        ...     store.correct(ids[:1], np.array([1]))
        ...     examples = store.examples(task)
        ...     store.read(examples.rows).shape, examples.y.tolist()
        ((2, 3), [1, 1])
    """
    path = folder / DATABASE
    with ExitStack() as closing:
        with writing(folder):
            if folder.exists() and not folder.is_dir():
                raise InputError(f"{folder} is a file; a store needs a folder, new or its own")
            if not folder.exists():
                folder.mkdir(parents=True)
                sync_folder(folder.parent)
        closing.enter_context(only_writer(folder, "try again", "close it first, life.close()"))
        if any((folder / SEGMENTS).glob("*.bin")) and not (path.exists() and path.stat().st_size):
            raise DataError(
                f"{path} is missing, but {folder / SEGMENTS} is not empty; put the whole folder back from a backup, or "
                "choose another folder"
            )
        database = Database(path)
        closing.callback(database.close)
        store = Store(folder, database)
        store._closing.enter_context(closing.pop_all())
    return store


class Store:
    """The tasks and examples of one learner in a folder, as `open_store` gives it.

    `store.sqlite` holds all but the inputs, which are in `segments/`. An input is on the disk before the database is
    told of it, and what the database does not know does not exist. Any thread may call any method. One thread changes
    something at a time, and reading does not wait for it.
    """

    def __init__(self, folder: Path, database: Database) -> None:
        self.folder = folder
        self._database = database
        self._closing = ExitStack()
        self._one_writer = threading.RLock()
        with database.transaction() as connection:
            queries.prepare(connection)
            about = queries.read_about(connection)
        self._end: int = about["examples"]  # rows from here on are not known to the database
        self._segments: Segments | None = None  # until the first example says what an input is
        if about["dtype"] is not None:
            self._segments = Segments(folder / SEGMENTS, np.dtype(about["dtype"]), tuple(json.loads(about["shape"])))
        self._finish_erasing()

    def close(self) -> None:
        """Close it, and let other processes open it."""
        with self._one_writer:
            self._closing.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_empty(self) -> bool:
        """Whether there has never been an example."""
        return self._end == 0

    @property
    def settings(self) -> dict[str, Any]:
        """What the owner of the store keeps in it; {} at first."""
        with self._database.transaction() as connection:
            settings: dict[str, Any] = json.loads(queries.read_about(connection)["settings"])
        return settings

    def set_settings(self, settings: dict[str, Any]) -> None:
        """Replace the settings, by what JSON can hold."""
        text = contents.encode_json("settings", settings)
        with self._changing() as (_, about):
            about["settings"] = text

    @property
    def counts(self) -> Counts:
        """How many tasks, examples and events there are."""
        with self._database.transaction() as connection:
            return queries.count(connection)

    def events(self, since: int = 0) -> list[Event]:
        """What has happened after event number `since`, in order."""
        with self._database.transaction() as connection:
            return queries.read_events(connection, since)

    def add_task(self, name: str, info: dict[str, Any]) -> int:
        """Begin a task and return its number. Numbers count from 0 and are not used again.

        Args:
            name: not the name of another task.
            info: what to keep about the task, as JSON.
        """
        contents.check_name(name)
        text = contents.encode_json("info", info)
        with self._changing() as (connection, about):
            return queries.add_task(connection, about, name, text)

    def list_tasks(self) -> list[StoredTask]:
        """All tasks in the order in which they were begun."""
        with self._database.transaction() as connection:
            return queries.list_tasks(connection)

    def change_task(self, number: int, *, info: dict[str, Any] | None = None, closed: bool | None = None) -> None:
        """Replace what is kept about a task; close it or open it again. None leaves it as it is."""
        changes: Row = {} if info is None else {"info": contents.encode_json("info", info)}
        changes |= {} if closed is None else {"closed": int(closed)}
        with self._changing() as (connection, _):
            update_rows(connection, schema.tasks, [queries.read_task(connection, number) | changes])

    def append(
        self, task: int, x: np.ndarray, y: np.ndarray, facts: Sequence[dict[str, Any]]
    ) -> Int64[np.ndarray, " n"]:
        """Add examples to a task. When this returns they survive a power cut; if it fails, none of them is there.

        Args:
            task: the number of the task.
            x: inputs, float32 or uint8, one row an example. The first call fixes dtype and shape of an input.
            y: labels, integer or real, of shape (n,) or (n, k). The task's first call fixes which.
            facts: what to keep about each example, as JSON, such as what was predicted before its label was seen.

        Returns:
            The numbers of the examples.
        """
        contents.check_inputs(x)
        labels, texts = contents.encode_labels(y), contents.encode_facts(facts)
        contents.check_same_length("x", len(x), "y", len(labels.texts))
        contents.check_same_length("x", len(x), "facts", len(texts))
        if not len(x):
            return np.empty(0, np.int64)
        with self._one_writer:
            before = self._segments, self._end
            try:
                with self._changing() as (connection, about):
                    owner = queries.read_task(connection, task)
                    queries.check_kind(owner, labels)
                    segments = self._segments or Segments(self.folder / SEGMENTS, x.dtype, x.shape[1:])
                    segments.check(x)
                    with writing(self.folder):
                        segments.write(self._end, x)
                    about |= {"dtype": x.dtype.name, "shape": json.dumps(x.shape[1:])}
                    queries.add_examples(connection, about, owner, labels, texts)
                    self._segments, self._end = segments, about["examples"]  # for threads that see them at once
            except BaseException:
                self._segments, self._end = before
                raise
            return np.arange(self._end - len(x), self._end, dtype=np.int64)

    def examples(self, task: int) -> Examples:
        """The examples of a task but for their inputs, which `read` gives."""
        with self._database.transaction() as connection:
            owner = queries.read_task(connection, task)
            ids, labels, facts = queries.read_examples_of(connection, owner)
        y = contents.decode_labels(labels, owner["label_dtype"] or "int64", owner["label_size"])
        return Examples(np.array(ids, np.int64), y, contents.decode_all(facts))

    def read(self, rows: np.ndarray) -> np.ndarray:
        """The inputs at some rows, read from disk now and checked; no other row is touched.

        Raises:
            DeletedError: if an example was deleted; ask `examples` again for those that are left.
            DataError: if an input is not as it was written.
        """
        self._database.check_open()
        segments, end = self._segments, self._end
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise InputError(f"rows must be whole numbers in one dimension, got {rows.dtype} of shape {rows.shape}")
        if len(wrong := rows[(rows < 0) | (rows >= end)]):
            raise InputError(f"rows must be below {end}, the number of examples that there have been, got {wrong[0]}")
        if segments is None:
            return np.empty(0, np.float32)
        x, good = segments.read(rows.astype(np.int64))
        if not good.all():
            self._explain(segments, rows[~good].tolist())
        return x

    def correct(
        self, ids: Sequence[int] | np.ndarray, y: np.ndarray, facts: Sequence[dict[str, Any]] | None = None
    ) -> None:
        """Give examples other labels, and other facts if there are any; an event keeps the old and the new label."""
        numbers, labels = contents.check_ids(ids), contents.encode_labels(y)
        texts = None if facts is None else contents.encode_facts(facts)
        contents.check_same_length("ids", len(numbers), "y", len(labels.texts))
        contents.check_same_length("ids", len(numbers), "facts", len(numbers if texts is None else texts))
        with self._changing() as (connection, about):
            rows = queries.read_examples(connection, numbers)
            for row, text in zip(rows, texts or (), strict=texts is not None):
                row["facts"] = text
            queries.correct_examples(connection, about, rows, labels)

    def set_facts(self, ids: Sequence[int] | np.ndarray, facts: Sequence[dict[str, Any]]) -> None:
        """Replace what is kept about examples, such as predictions made anew after a correction; this is no event."""
        numbers, texts = contents.check_ids(ids), contents.encode_facts(facts)
        contents.check_same_length("ids", len(numbers), "facts", len(texts))
        with self._changing() as (connection, _):
            rows = queries.read_examples(connection, numbers)
            changed = [row | {"facts": text} for row, text in zip(rows, texts, strict=True)]
            update_rows(connection, schema.examples, changed)

    def delete(self, ids: Sequence[int] | np.ndarray) -> None:
        """Delete examples. Nothing of their inputs, labels and facts is left in the folder."""
        numbers = contents.check_ids(ids)
        with self._changing() as (connection, about):
            queries.delete_examples(connection, about, queries.read_examples(connection, numbers))
        self._finish_erasing()

    def forget(self, task: int) -> None:
        """Delete a task with all of its examples. Nothing of them, nor of its name and info, is left in the folder."""
        with self._changing() as (connection, about):
            queries.forget_task(connection, about, queries.read_task(connection, task))
        self._finish_erasing()

    @contextmanager
    def _changing(self) -> Iterator[tuple[Connection, Row]]:
        """A transaction of the only thread that writes, with what `read_about` gives; that is saved if it changes."""
        with self._one_writer, self._database.transaction() as connection:
            about = queries.read_about(connection)
            before = dict(about)
            yield connection, about
            if about != before:
                update_rows(connection, schema.about, [about])

    def _finish_erasing(self) -> None:
        with self._one_writer:
            finish_erasing(self.folder, self._database, self._segments, self._end)

    def _explain(self, segments: Segments, rows: list[int]) -> None:
        """Raise the error that says why rows are not as they were written."""
        with self._database.transaction() as connection:
            live = [row for row in rows if queries.is_there(connection, row)]
        if live:
            raise DataError(
                f"{segments.path(live[0])} is damaged: the input of example {live[0]} is not as it was written; delete "
                f"that example, or put the whole folder {self.folder} back from a backup"
            )
        raise DeletedError(f"rows must be of examples that are there, but {rows[0]} has been deleted")
