"""Erasing the bytes of what was deleted."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import delete

from anyshot.errors import RunError
from anyshot.lifelong.database import Database, writing
from anyshot.lifelong.schema import erasures, select_rows
from anyshot.lifelong.segments import SEGMENTS, Segments, remove_files


def finish_erasing(folder: Path, database: Database, segments: Segments | None, end: int) -> None:
    """Erase what was deleted, just now or by a process that was killed before it had done so.

    The transaction that deletes examples notes their rows in the table `erasures`. This overwrites their inputs and
    what the database left of them, and then removes the notes.

    Args:
        folder: of the store.
        database: of the store.
        segments: the inputs; None before the first example.
        end: inputs from this row on are not known to the database; an append that failed may have left some.
    """
    with database.transaction() as connection:
        pending = select_rows(connection, erasures)
    if not pending:
        return
    try:
        with writing(folder):
            if segments is None:
                remove_files(folder / SEGMENTS)
            else:
                for erasure in pending:
                    segments.erase(erasure["first"], erasure["count"])
                segments.erase_from(end)
        database.purge()
        with database.transaction() as connection:
            connection.execute(delete(erasures))
    except RunError as error:
        raise RunError(
            f"what was deleted is gone from the store, but its bytes are not yet ({error}); opening the store again "
            "erases them"
        ) from error
