"""A store that is killed, forgets, has a full disk or is damaged: nothing that was said is lost or comes back."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from sqlalchemy import event

from anyshot.errors import DataError, InputError, RunError
from anyshot.lifelong import segments
from anyshot.lifelong.store import Store, open_store
from tests.support.faults import Crash, fault
from tests.support.stores import (
    all_bytes,
    append,
    assert_told_from_number,
    make_facts,
    make_x,
    small_store,
    start_script,
    state,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Two tasks and seven examples."""
    with small_store(tmp_path / "store") as made:
        yield made


# Killed --------------------------------------------------------------------------------------------------------------


def kill(what: str, folder: Path, seed: int, kills: int) -> dict[str, int]:
    with start_script(what, str(folder), str(seed), str(kills)) as process:
        assert process.stdout
        said = process.stdout.read()
    assert process.returncode == 0
    hit: dict[str, int] = json.loads(said)
    assert hit["kills"] == kills
    assert hit["done"] > kills // 2
    return hit


@pytest.mark.parametrize(
    "kills", [pytest.param(30, marks=pytest.mark.medium), pytest.param(300, marks=pytest.mark.slow)]
)
def test_killed_while_it_appends_it_has_what_was_said_and_at_most_the_one_in_flight(kills: int, tmp_path: Path) -> None:
    hit = kill("append", tmp_path / "store", kills, kills)
    assert kills < 300 or min(hit["opening"], hit["unsaid"]) > 3  # both kinds of instants were hit


@pytest.mark.parametrize(
    "kills", [pytest.param(20, marks=pytest.mark.medium), pytest.param(150, marks=pytest.mark.slow)]
)
def test_killed_while_it_forgets_it_leaves_nothing_once_it_is_opened_again(kills: int, tmp_path: Path) -> None:
    kill("forget", tmp_path / "store", kills, kills)


def test_inputs_are_on_disk_before_the_database_knows_them(store: Store) -> None:
    """An fsync of a file, and of its folder if the file is new; then a commit with synchronous=FULL."""
    synced: list[tuple[str, int]] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        with sqlite3.connect(f"file:{store.folder / 'store.sqlite'}?mode=ro", uri=True) as other:
            known = other.execute("SELECT count(*) FROM examples").fetchone()[0]
        other.close()
        synced.append((Path(f"/proc/self/fd/{handle}").resolve().name, known))
        real(handle)

    with patch.object(os, "fsync", fsync):
        append(store, 0, 2)
        assert synced == [("000000.bin", 7)]
        with patch.multiple(segments, SMALLEST=64, LARGEST=64), tempfile.TemporaryDirectory() as folder:
            synced.clear()
            other = segments.Segments(Path(folder) / "segments", np.dtype("uint8"), (4,))
            other.write(0, np.zeros((1, 4), np.uint8))
            assert [name for name, _ in synced] == [Path(folder).name, "000000.bin", "segments", "000000.bin"]
    for _ in range(3):
        with store._database.transaction() as one, store._database.transaction() as two:
            for connection in (one, two):
                assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
                assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


# Forgotten -----------------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_nothing_is_left_of_a_task_with_a_past(tmp_path: Path) -> None:
    """Rows that change their length move in the database, and SQLite leaves copies where they have been."""
    rng, count = np.random.default_rng(0), 600
    with open_store(tmp_path) as store:
        kept, gone = store.add_task("kept", {}), store.add_task("<name>", {"note": "<info>"})
        for first in range(0, count, 4):
            numbers = np.arange(first, first + 4)
            x = np.frombuffer(b"".join(b"<x %05d>" % n for n in numbers), np.uint8).reshape(4, 9)
            task = gone if first % 8 else kept
            store.append(task, x, 7_000_000_000 + numbers, [{"mark": f"<f {n:05d}>"} for n in numbers])
        for length in (200, 400, 600, 800):
            ids = np.sort(rng.choice(count, count // 2, replace=False))
            store.set_facts(ids, [{"mark": f"<f {n:05d}>", "text": length * "x"} for n in ids])
        lost = store.examples(gone).ids
        store.correct(lost[:50], 8_000_000_000 + lost[:50])
        store.forget(gone)
        data = all_bytes(tmp_path)
    marks = [b"<f %05d>", b"<x %05d>", b"70000%05d", b"80000%05d"]
    assert not [mark % n for n in lost for mark in marks if mark % n in data]
    assert b"<name>" not in data
    assert b"<info>" not in data
    assert all(mark % n in data for n in range(4) for mark in marks[:3])
    with open_store(tmp_path) as store:
        assert [task.name for task in store.list_tasks()] == ["kept"]
        assert store.examples(kept).facts[0]["mark"] == "<f 00000>"


@pytest.mark.parametrize("first", [True, False])
def test_an_append_that_failed_is_erased_with_its_task(first: bool, tmp_path: Path) -> None:
    """Its input was written, and the database was never told."""
    with open_store(tmp_path) as store:
        task = store.add_task("only", {})
        if not first:
            append(store, task, 2)
        written = make_x([99])
        with patch("anyshot.lifelong.queries.add_examples", side_effect=Crash), pytest.raises(Crash):
            store.append(task, written, np.array([1]), [{}])
        assert written.tobytes() in all_bytes(tmp_path)
        store.forget(task)
        assert written.tobytes() not in all_bytes(tmp_path)
        append(store, store.add_task("next", {}), 3)
        assert_told_from_number(store, 1)


@pytest.mark.medium
@pytest.mark.parametrize("what", ["delete", "forget"])
def test_a_crash_while_erasing_is_made_good(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SMALLEST", 256)
    for number in range(1, 50):
        folder = tmp_path / str(number)
        with open_store(folder) as store:
            store.add_task("<name>", {})
            store.add_task("kept", {})
            append(store, 0, 6)
            append(store, 1, 2)
            ended = True
            with fault(number, Crash()):
                try:
                    store.delete(range(6)) if what == "delete" else store.forget(0)
                except Crash:
                    ended = False
        with open_store(folder) as store:
            assert_told_from_number(store, 1)
            after, data = state(store), all_bytes(folder)
        assert after["counts"].examples == 2
        assert len(after["tasks"]) == (2 if what == "delete" else 1)
        assert not any(x.tobytes() in data for x in make_x(list(range(6))))
        assert not any(json.dumps(fact).encode() in data for fact in make_facts(list(range(6))))
        assert (b"<name>" in data) == (what == "delete")
        if ended:
            break
    assert 4 < number < 49


# The disk ------------------------------------------------------------------------------------------------------------


@contextmanager
def full_at(number: int) -> Iterator[None]:
    with fault(number, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))):
        yield


@pytest.mark.parametrize("number", [1, 2, 3])
def test_on_a_full_disk_an_append_leaves_nothing_and_the_next_one_works(number: int, store: Store) -> None:
    before = state(store)
    with full_at(number), pytest.raises(RunError, match="No space left on device; make room") as error:
        append(store, 0, 2)
    assert str(store.folder) in str(error.value)
    assert state(store) == before
    append(store, 1, 3)
    assert assert_told_from_number(store, 1).tolist() == [4, 5, 6, 7, 8, 9]


def test_a_database_that_cannot_grow_leaves_nothing_and_can_grow_later(store: Store) -> None:
    before = state(store)

    def limit(connection: Any, pages: int = 1) -> None:
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")

    event.listen(store._database._engine, "begin", limit)
    with pytest.raises(RunError, match=r"database or disk is full.*make room"):
        store.append(0, make_x([7]), np.array([70]), [{"text": 9000 * "x"}])
    event.remove(store._database._engine, "begin", limit)
    assert state(store) == before
    with store._database.transaction() as connection:
        limit(connection, 10**6)
    append(store, 0, 1)
    assert assert_told_from_number(store, 0).tolist() == [0, 1, 2, 3, 7]


def test_a_commit_that_fails_leaves_nothing(store: Store) -> None:
    before = state(store)

    def fail(_: Any) -> None:
        raise Crash

    event.listen(store._database._engine, "commit", fail)
    with pytest.raises(Crash):
        store.append(0, make_x([7, 8]), np.array([70, 80]), make_facts([7, 8]))
    event.remove(store._database._engine, "commit", fail)
    assert state(store) == before
    with pytest.raises(InputError, match="rows must be below 7"):
        store.read(np.array([7]))
    append(store, 1, 1)
    assert assert_told_from_number(store, 1).tolist() == [4, 5, 6, 7]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True)
    if made.returncode:
        pytest.skip("needs the right to mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.medium
def test_a_disk_that_is_really_full(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    with open_store(small_disk / "store") as store:
        task, said, refused = store.add_task("only", {}), 0, 0
        ballast.write_bytes(bytes(1_200_000))
        for _ in range(3):
            for _ in range(2000):
                try:
                    said = int(append(store, task, 20)[-1]) + 1
                except RunError as error:
                    assert "make room" in str(error)  # noqa: PT017
                    refused += 1
                    break
            assert assert_told_from_number(store, task).tolist() == list(range(said))
            os.truncate(ballast, ballast.stat().st_size - 200_000)
        assert refused == 3
        append(store, task, 20)
    with ballast.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(100))
    with pytest.raises((RunError, DataError), match="make room"):
        open_store(small_disk / "another")
    os.truncate(ballast, 1_000_000)
    with open_store(small_disk / "store") as store:
        assert len(assert_told_from_number(store, task)) == said + 20


def test_a_deletion_on_a_full_disk_is_finished_later(store: Store) -> None:
    with full_at(1), pytest.raises(RunError, match="opening the store again erases them"):
        store.delete([1])
    assert store.examples(0).ids.tolist() == [0, 2, 3]
    assert make_x([1])[0].tobytes() in all_bytes(store.folder)
    store.close()
    with open_store(store.folder):
        assert make_x([1])[0].tobytes() not in all_bytes(store.folder)


@pytest.mark.parametrize("code", [errno.EROFS, errno.ENOSPC])
def test_a_folder_that_cannot_be_written_is_named(code: int, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "new"):
        with fault(1, OSError(code, os.strerror(code))), pytest.raises((RunError, DataError)) as error:
            open_store(folder)
        assert f"cannot write into {folder}: {os.strerror(code)}" in str(error.value)
        assert "run again" not in str(error.value)


# Damage --------------------------------------------------------------------------------------------------------------


def test_a_flipped_byte_of_an_input_is_found_when_it_is_read(store: Store) -> None:
    path = store.folder / "segments" / "000000.bin"
    stride, whole = 64, path.read_bytes()
    for place in range(0, 7 * stride, 5):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)  # the same file, which is mapped
        row = place // stride
        with pytest.raises(DataError, match=f"{path} is damaged: the input of example {row} "):
            store.read(np.arange(7))
        np.testing.assert_array_equal(
            store.read(np.delete(np.arange(7), row)), make_x(np.delete(np.arange(7), row).tolist())
        )
    store.delete([row])  # as the sentence says
    assert assert_told_from_number(store, 1).tolist() == [4, 5]


@pytest.mark.parametrize("every", [pytest.param(11, marks=pytest.mark.medium), pytest.param(1, marks=pytest.mark.slow)])
def test_a_flipped_byte_of_the_database_is_found_or_harmless(every: int, store: Store) -> None:
    store.correct([1], np.array([5]))
    store.change_task(1, closed=True)
    store.set_settings({"learner": "ftml-vs"})
    before = state(store)
    store.close()
    path, found = store.folder / "store.sqlite", 0
    whole = path.read_bytes()
    places = [place for place, byte in enumerate(whole) if byte][::every]
    for place in places:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        try:
            with open_store(store.folder) as again:
                assert state(again) == before, place
        except DataError as error:
            assert str(path) in str(error) or "format" in str(error)  # noqa: PT017
            assert "\n" not in str(error)  # noqa: PT017
            found += 1
    assert found > len(places) // 2


@pytest.mark.parametrize("name", ["text", "half", "empty", "missing", "other", "no tables"])
def test_what_is_no_database_of_a_store_is_named_and_left_alone(name: str, store: Store) -> None:
    store.close()
    path = store.folder / "store.sqlite"
    whole = path.read_bytes()
    path.unlink()
    if name == "other":
        shutil.rmtree(store.folder / "segments")
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE thesis (years INTEGER)")
        other.close()
    elif name != "missing":
        no_tables = whole[:103] + b"\0\0" + whole[105:]  # how many there are
        texts = {
            "text": b"years of work " * 1000,
            "half": whole[: len(whole) // 2],
            "empty": b"",
            "no tables": no_tables,
        }
        path.write_bytes(texts[name])
    before = path.read_bytes()[100:] if path.exists() else None
    with pytest.raises(DataError, match=str(path)):
        open_store(store.folder)
    assert (path.read_bytes()[100:] if path.exists() else None) == before  # 100 bytes say how it is written
    path.write_bytes(whole)
    if name != "other":
        with open_store(store.folder) as again:
            assert_told_from_number(again, 0)


def test_a_store_of_a_newer_version_is_refused(store: Store) -> None:
    store.close()
    with sqlite3.connect(store.folder / "store.sqlite") as other:
        other.execute("UPDATE about SET format = 2")
        other.execute("ALTER TABLE about ADD COLUMN more TEXT")
    other.close()
    with pytest.raises(DataError, match=r"has format 2, but anyshot .* reads format 1"):
        open_store(store.folder)


def test_a_store_is_not_made_where_a_file_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=f"{tmp_path / 'thesis.tex'} is a file"):
        open_store(tmp_path / "thesis.tex")


@pytest.mark.medium
def test_a_second_process_is_told_who_has_the_store(tmp_path: Path) -> None:
    with start_script("hold", str(tmp_path / "store")) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(DataError, match=f"process {process.pid} on"):
            open_store(tmp_path / "store")
        process.kill()
        process.wait()
    open_store(tmp_path / "store").close()
