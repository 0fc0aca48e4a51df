"""The tables of a store. Every row carries a checksum, which is seen to whenever the row is read."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Double,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    bindparam,
    insert,
    select,
    update,
)

from anyshot.runs.files import Damaged

Row = dict[str, Any]

FORMAT = 1  # raise it when an older version could no longer read the store

# In SQLite only INTEGER PRIMARY KEY makes a column the number of the row itself.
_Number = BigInteger().with_variant(Integer, "sqlite")

TABLES = MetaData()

about = Table(
    "about",  # one row
    TABLES,
    Column("one", Integer, primary_key=True),
    Column("format", Integer, nullable=False),
    Column("settings", Text, nullable=False),
    Column("dtype", String(16)),  # of an input, and its shape as JSON; null before the first example
    Column("shape", Text),
    Column("tasks", _Number, nullable=False),  # how many there have ever been: the number of the next one
    Column("examples", _Number, nullable=False),
    Column("events", _Number, nullable=False),
    Column("crc", _Number, nullable=False),
)

tasks = Table(
    "tasks",
    TABLES,
    Column("number", _Number, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False, unique=True),
    Column("info", Text, nullable=False),
    Column("closed", Integer, nullable=False),  # 0 or 1
    Column("labels", _Number, nullable=False),  # how many examples there are, so that nobody has to count them
    Column("label_dtype", String(16)),  # null before the first example
    Column("label_size", Integer),  # numbers in a label; null if a label is a number by itself
    Column("crc", _Number, nullable=False),
)

examples = Table(
    "examples",
    TABLES,
    Column("id", _Number, primary_key=True, autoincrement=False),  # also the row of its input in the segments
    Column("task", _Number, nullable=False),
    Column("y", Text, nullable=False),
    Column("facts", Text, nullable=False),
    Column("crc", _Number, nullable=False),
    Index("examples_of_task", "task", "id"),
)

events = Table(
    "events",
    TABLES,
    Column("number", _Number, primary_key=True, autoincrement=False),
    Column("time", Double, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("task", _Number, nullable=False),
    Column("example", _Number),
    Column("old", Text),  # labels of a correction; null again once the example is deleted
    Column("new", Text),
    Column("crc", _Number, nullable=False),
)

erasures = Table(
    "erasures",  # rows of the segments that are deleted but perhaps not overwritten yet
    TABLES,
    Column("event", _Number, primary_key=True, autoincrement=False),
    Column("first", _Number, primary_key=True, autoincrement=False),
    Column("count", _Number, nullable=False),
    Column("crc", _Number, nullable=False),
)

_NAMES = {table: [column.name for column in table.columns] for table in TABLES.sorted_tables}  # "crc" is the last
_UPDATES = {
    table: update(table).where(table.c[names[0]] == bindparam("key")).values({name: bindparam(name) for name in names})
    for table, names in _NAMES.items()
}


def seal(table: Table, row: Mapping[str, Any]) -> Row:
    """A row as it goes into its table: with its checksum.

    Example:
        >>> row = seal(erasures, {"event": 9, "first": 3, "count": 1})
        >>> is_whole(list(row.values())), is_whole([9, 3, 2, row["crc"]])
        (True, False)
    """
    return {**row, "crc": _checksum([row[name] for name in _NAMES[table][:-1]])}


def is_whole(values: Sequence[Any]) -> bool:
    """Whether the values of a row, the checksum last, are as they were sealed."""
    return bool(values[-1] == _checksum(values[:-1]))


def select_values(
    connection: Connection, table: Table, *where: ColumnElement[bool], order: Column[Any] | None = None
) -> Sequence[Sequence[Any]]:
    """The values of rows, the columns in their order; raises `Damaged` if a row is not as it was sealed."""
    statement = select(table).where(*where)
    rows = connection.execute(statement if order is None else statement.order_by(order)).all()
    if not all(map(is_whole, rows)):
        raise Damaged(f"a row of its table {table.name} is not as it was written")
    return rows


def select_rows(
    connection: Connection, table: Table, *where: ColumnElement[bool], order: Column[Any] | None = None
) -> list[Row]:
    """The same as `select_values`, by the names of the columns."""
    return [dict(zip(_NAMES[table], row, strict=True)) for row in select_values(connection, table, *where, order=order)]


def insert_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Add rows to a table."""
    if rows:
        connection.execute(insert(table), [seal(table, row) for row in rows])


def update_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Replace rows of a table, found by their first column, the key."""
    if rows:
        connection.execute(_UPDATES[table], [{"key": row[_NAMES[table][0]], **seal(table, row)} for row in rows])


def _checksum(values: Sequence[Any]) -> int:
    return zlib.crc32("\x1f".join(map(str, values)).encode("utf-8", "surrogatepass"))
