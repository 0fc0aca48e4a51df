"""What a store asks its database and changes in it, each inside a transaction that the caller has begun."""

from __future__ import annotations

import time
from collections.abc import Sequence

import sqlalchemy
from sqlalchemy import Connection, delete, func, select

from anyshot.errors import DataError, InputError
from anyshot.lifelong.contents import Counts, Event, Labels, StoredTask, decode_all
from anyshot.lifelong.schema import (
    FORMAT,
    TABLES,
    Row,
    about,
    erasures,
    events,
    examples,
    insert_rows,
    select_rows,
    select_values,
    tasks,
    update_rows,
)
from anyshot.runs.files import Damaged
from anyshot.version import __version__

MOST_AT_ONCE = 500  # values in a query; some databases take no more than a thousand


def prepare(connection: Connection) -> None:
    """Make the tables of a new database, or see that those of an older one can be used."""
    names = sqlalchemy.inspect(connection).get_table_names()
    if not names:
        TABLES.create_all(connection)
        first: Row = {"one": 1, "format": FORMAT, "settings": "{}", "dtype": None, "shape": None}
        insert_rows(connection, about, [first | {"tasks": 0, "examples": 0, "events": 0}])
    elif about.name not in names:
        raise Damaged(f"it has a table {names[0]}, but no table {about.name}")
    elif (found := connection.execute(select(about.c.format)).scalar()) != FORMAT:
        raise DataError(
            f"the store has format {found}, but anyshot {__version__} reads format {FORMAT}; use the version of "
            "anyshot that wrote it, or a newer one"
        )


def read_about(connection: Connection) -> Row:
    """What is known about the store as a whole."""
    rows = select_rows(connection, about)
    if len(rows) != 1:
        raise Damaged(f"its table {about.name} has {len(rows)} rows instead of one")
    return rows[0]


def count(connection: Connection) -> Counts:
    """How many tasks, examples and events there are."""
    totals = select(func.count(tasks.c.labels), func.coalesce(func.sum(tasks.c.labels), 0))
    there, counts = connection.execute(totals).one(), read_about(connection)
    return Counts(there[0], int(there[1]), counts["examples"], counts["events"])


def list_tasks(connection: Connection) -> list[StoredTask]:
    """All tasks in the order in which they were begun."""
    rows = select_values(connection, tasks, order=tasks.c.number)
    infos = decode_all([row[2] for row in rows])
    return [
        StoredTask(number, name, info, bool(closed), labels)
        for (number, name, _, closed, labels, *_), info in zip(rows, infos, strict=True)
    ]


def read_task(connection: Connection, number: int) -> Row:
    """One task."""
    rows = select_rows(connection, tasks, tasks.c.number == number)
    if not rows:
        raise InputError(f"task must be the number of a task that is there, got {number}; list_tasks() lists them")
    return rows[0]


def read_examples_of(connection: Connection, task: Row) -> tuple[list[int], list[str], list[str]]:
    """Numbers, labels and facts of the examples of a task, in the order in which they arrived."""
    number = task["number"]
    rows = select_values(connection, examples, examples.c.task == number, order=examples.c.id)
    ids, owners, labels, facts, _ = map(list, zip(*rows, strict=True)) if rows else ([], [], [], [], [])
    if not len(set(ids)) == owners.count(number) == len(ids) == task["labels"]:  # an index has no checksums
        raise Damaged(f"{len(set(ids))} examples of task {number} are found instead of {task['labels']}")
    return ids, labels, facts


def read_examples(connection: Connection, ids: Sequence[int]) -> list[Row]:
    """Some examples in the order of `ids`."""
    rows: dict[int, Row] = {}
    for i in range(0, len(ids), MOST_AT_ONCE):
        found = select_rows(connection, examples, examples.c.id.in_(ids[i : i + MOST_AT_ONCE]))
        rows |= {row["id"]: row for row in found}
    if missing := [id_ for id_ in ids if id_ not in rows]:
        raise InputError(f"ids must be of examples that are there, but {missing[0]} is not, or was deleted")
    return [rows[id_] for id_ in ids]


def is_there(connection: Connection, id_: int) -> bool:
    """Whether there is an example of this number."""
    return connection.execute(select(examples.c.id).where(examples.c.id == id_)).first() is not None


def read_events(connection: Connection, since: int) -> list[Event]:
    """The events after number `since`."""
    rows = select_rows(connection, events, events.c.number > since, order=events.c.number)
    old = decode_all([row["old"] or "null" for row in rows])
    new = decode_all([row["new"] or "null" for row in rows])
    return [
        Event(row["number"], row["time"], row["kind"], row["task"], row["example"], before, after)
        for row, before, after in zip(rows, old, new, strict=True)
    ]


def add_task(connection: Connection, counts: Row, name: str, info: str) -> int:
    """Add a task and return its number. `counts`, here and below, is what `read_about` gave, and is changed."""
    if connection.execute(select(tasks.c.number).where(tasks.c.name == name)).first():
        raise InputError(f"name must be new, but there is a task {name!r} already; choose another name")
    number: int = counts["tasks"]
    row: Row = {"number": number, "name": name, "info": info, "closed": 0, "labels": 0}
    insert_rows(connection, tasks, [row | {"label_dtype": None, "label_size": None}])
    counts["tasks"] += 1
    _add_events(connection, counts, "task", [(number, None)])
    return number


def add_examples(connection: Connection, counts: Row, task: Row, labels: Labels, facts: Sequence[str]) -> None:
    """Add examples, whose inputs are on disk already, to a task."""
    first = counts["examples"]
    rows = [
        {"id": first + i, "task": task["number"], "y": label, "facts": fact}
        for i, (label, fact) in enumerate(zip(labels.texts, facts, strict=True))
    ]
    insert_rows(connection, examples, rows)
    kind = {"label_dtype": labels.dtype, "label_size": labels.size}
    update_rows(connection, tasks, [task | kind | {"labels": task["labels"] + len(rows)}])
    counts["examples"] += len(rows)
    _add_events(connection, counts, "append", [(row["task"], row["id"]) for row in rows])


def correct_examples(connection: Connection, counts: Row, rows: Sequence[Row], labels: Labels) -> None:
    """Give examples other labels."""
    for task in {row["task"] for row in rows}:
        check_kind(read_task(connection, task), labels)
    changes = [(row["y"], label) for row, label in zip(rows, labels.texts, strict=True)]
    update_rows(connection, examples, [row | {"y": new} for row, (_, new) in zip(rows, changes, strict=True)])
    _add_events(connection, counts, "correct", [(row["task"], row["id"]) for row in rows], changes)


def delete_examples(connection: Connection, counts: Row, rows: Sequence[Row]) -> None:
    """Delete examples; their inputs are then to be erased."""
    _add_events(connection, counts, "delete", [(row["task"], row["id"]) for row in rows])
    for number in {row["task"] for row in rows}:
        task, ids = read_task(connection, number), [row["id"] for row in rows if row["task"] == number]
        left = task["labels"] - len(ids)
        kind = {} if left else {"label_dtype": None, "label_size": None}  # the next labels decide again
        update_rows(connection, tasks, [task | kind | {"labels": left}])
        _remove(connection, counts["events"], number, ids)


def forget_task(connection: Connection, counts: Row, task: Row) -> None:
    """Delete a task and its examples; their inputs are then to be erased."""
    _add_events(connection, counts, "forget", [(task["number"], None)])
    _remove(connection, counts["events"], task["number"], read_examples_of(connection, task)[0])
    connection.execute(delete(tasks).where(tasks.c.number == task["number"]))


def check_kind(task: Row, labels: Labels) -> None:
    """Refuse labels of another kind than those that the task has had."""

    def say(dtype: str, size: int | None) -> str:
        return f"{dtype} of shape {'(n,)' if size is None else f'(n, {size})'}"

    had, given = (task["label_dtype"], task["label_size"]), (labels.dtype, labels.size)
    if had[0] is not None and had != given:
        raise InputError(
            f"y must be {say(*had)}, as the first labels of task {task['number']} ({task['name']}), got {say(*given)}"
        )


def _add_events(
    connection: Connection,
    counts: Row,
    kind: str,
    subjects: Sequence[tuple[int, int | None]],
    labels: Sequence[tuple[str, str]] | None = None,
) -> None:
    """Add an event for each task and example, with the old and the new label of a correction."""
    now, first = time.time(), counts["events"] + 1
    rows = [
        {"number": first + i, "time": now, "kind": kind, "task": task, "example": example, "old": None, "new": None}
        for i, (task, example) in enumerate(subjects)
    ]
    for row, (old, new) in zip(rows, labels or (), strict=labels is not None):
        row |= {"old": old, "new": new}
    insert_rows(connection, events, rows)
    counts["events"] += len(rows)


def _remove(connection: Connection, event: int, task: int, ids: Sequence[int]) -> None:
    """Remove examples and the labels in their events, and note what there is to erase."""
    for i in range(0, len(ids), MOST_AT_ONCE):
        connection.execute(delete(examples).where(examples.c.id.in_(ids[i : i + MOST_AT_ONCE])))
    gone = set(ids)
    corrections = select_rows(connection, events, events.c.task == task, events.c.kind == "correct")
    told = [row | {"old": None, "new": None} for row in corrections if row["example"] in gone]
    update_rows(connection, events, told)
    runs: list[Row] = []  # of numbers that follow each other
    for id_ in sorted(ids):
        if runs and runs[-1]["first"] + runs[-1]["count"] == id_:
            runs[-1]["count"] += 1
        else:
            runs.append({"event": event, "first": id_, "count": 1})
    # A task without examples has a name to be erased, too.
    insert_rows(connection, erasures, runs or [{"event": event, "first": 0, "count": 0}])
