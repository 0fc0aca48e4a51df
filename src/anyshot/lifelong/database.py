"""The SQLite database of a store: transactions, and what its errors mean."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import Connection, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from anyshot.errors import DataError, RunError
from anyshot.runs.files import Damaged

PATIENCE = 60  # seconds to wait for other threads' reads

# Codes of SQLite that tell of the disk and not of what is on it.
_OF_THE_DISK = {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOLFS,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}


class Database:
    """One SQLite file. Threads may read while one of them writes; each sees whole transactions only.

    A transaction is on the disk when it ends (WAL, `synchronous=FULL`). That only one thread writes at a time is up to
    the caller.

    Args:
        path: the file; made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._closed = False
        self._engine = sqlalchemy.create_engine(sqlalchemy.URL.create("sqlite", database=str(path)), max_overflow=-1)
        event.listen(self._engine, "connect", _set_up)
        event.listen(self._engine, "begin", _begin)
        try:
            with self._explained(), self._raw() as cursor:
                cursor.execute("PRAGMA journal_mode=WAL")
                damage = cursor.execute("PRAGMA quick_check(1)").fetchone()[0]
            if damage != "ok":
                raise self.damaged(damage)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """See the database as it was when this began. What is written is there when it ends, or, if it fails, not."""
        self.check_open()
        with self._explained(), self._engine.begin() as connection:
            yield connection

    def purge(self) -> None:
        """Leave no byte of what was deleted in the files of the database.

        `secure_delete` alone is not enough: SQLite moves rows between pages and leaves copies behind. So all that is
        left is written anew.
        """
        with self._explained(), self._raw() as cursor:
            cursor.execute("VACUUM")
            until = time.monotonic() + PATIENCE
            while cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:  # another thread reads an old state
                if time.monotonic() > until:
                    raise RunError(
                        f"{self.path} could not be cleared of what was deleted, as another thread has been reading for "
                        f"{PATIENCE} s; open the store again: that finishes it"
                    )

    def check_open(self) -> None:
        """Refuse to go on after `close`."""
        if self._closed:
            raise RunError(f"the store {self.path.parent} is closed; open it again")

    def close(self) -> None:
        """Close it; what is done afterwards fails."""
        self._closed = True
        self._engine.dispose()

    def damaged(self, why: str) -> DataError:
        """The error that says that the database must not be used."""
        return DataError(
            f"{self.path} is damaged or not a store's database ({' '.join(why.split())}); put the whole folder "
            f"{self.path.parent} back from a backup, or choose another folder"
        )

    @contextmanager
    def _raw(self) -> Iterator[sqlite3.Cursor]:
        """A cursor outside of any transaction."""
        connection = self._engine.raw_connection()
        try:
            yield connection.cursor()  # type: ignore[misc]
        finally:
            connection.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn SQLite's errors into sentences that say what to do."""
        try:
            yield
        except Damaged as why:
            raise self.damaged(str(why)) from None
        except (SQLAlchemyError, sqlite3.Error, UnicodeDecodeError) as error:  # the last where a message is damaged
            cause = error.orig if isinstance(error, DBAPIError) else error
            code = getattr(cause, "sqlite_errorcode", 0) & 0xFF  # the rest says where, not what
            if code in _OF_THE_DISK:
                raise _cannot_write(self.path.parent, str(cause)) from error
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise RunError(f"{self.path} is being used by another program ({cause}); close that first") from error
            raise self.damaged(str(cause)) from error


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn what the system says about a full or read-only disk into a sentence that says what to do."""
    try:
        yield
    except OSError as error:
        raise _cannot_write(folder, error.strerror or str(error)) from error


def _cannot_write(folder: Path, why: str) -> RunError:
    return RunError(
        f"cannot write into {folder}: {why}; make room there or make it writable, then try again: what was stored "
        "before is safe"
    )


def _set_up(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # the module sqlite3 would begin transactions of its own
    for setting in ("synchronous=FULL", "secure_delete=ON", "temp_store=MEMORY", f"busy_timeout={1000 * PATIENCE}"):
        connection.execute(f"PRAGMA {setting}")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")
