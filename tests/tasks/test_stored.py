"""Tasks in shards: what was written is read, and what cannot be is refused before anything is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyshot import DataError, StoredTasks, load_tasks, write_tasks
from anyshot.tasks.storing import NamedTask
from tests.support.refusals import assert_refused


def make_tasks(sizes: list[tuple[int, int]]) -> list[NamedTask]:
    """Tasks whose examples tell where they belong: task, part and row."""
    made = []
    for number, counts in enumerate(sizes):
        train, test = (
            (np.array([[number, part, row] for row in range(count)], np.int16).reshape(count, 3), np.arange(count) % 7)
            for part, count in enumerate(counts)
        )
        made.append((f"task {number}", train, test))
    return made


@settings(max_examples=15)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), min_size=1, max_size=9),
    shard_bytes=st.sampled_from([1, 60, 10**6]),
    seed=st.integers(0, 99),
)
def test_every_example_is_found_again(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[tuple[int, int]], shard_bytes: int, seed: int
) -> None:
    stored = write_tasks(tmp_path_factory.mktemp("any") / "tasks", iter(make_tasks(sizes)), shard_bytes=shard_bytes)
    assert (stored.num_tasks, len(stored.task_names)) == (len(sizes), len(sizes))
    assert list(stored.task_names) == [f"task {number}" for number in range(len(sizes))]
    draw = np.random.default_rng(seed)
    for part, name in enumerate(("train", "test")):
        assert stored.counts(name).tolist() == [counts[part] for counts in sizes]  # type: ignore[arg-type]
        there = [(task, row) for task, counts in enumerate(sizes) for row in range(counts[part])]
        tasks, rows = np.array([there[n] for n in draw.permutation(len(there))] or np.zeros((0, 2)), int).T
        x, y = stored.read(tasks, rows, name)  # type: ignore[arg-type]
        np.testing.assert_array_equal(x, np.stack([tasks, np.full_like(tasks, part), rows], 1))
        np.testing.assert_array_equal(y, rows % 7)
    stored.verify()


def test_a_task_set_is_stored_with_its_name_and_its_classes(tmp_path: Path) -> None:
    tasks = load_tasks("sinusoid", num_tasks=3, train_rows=4, test_rows=2)
    stored = write_tasks(tmp_path / "tasks", tasks)
    x, y = stored.read(np.array([2, 0]), np.array([1, 3]))
    rows = np.asarray(tasks.train_rows)[[2, 0], [1, 3]]
    np.testing.assert_array_equal(x, np.asarray(tasks.x)[rows])
    np.testing.assert_array_equal(y, np.asarray(tasks.y)[rows])
    assert (stored.name, stored.num_classes, stored.example()) == (tasks.name, 0, tasks.example())
    assert StoredTasks(stored.folder).fingerprint == stored.fingerprint


def test_damage_is_found(tmp_path: Path) -> None:
    stored = write_tasks(tmp_path / "tasks", make_tasks([(3, 1), (2, 2)]), shard_bytes=1)
    file = tmp_path / "tasks" / "shard-00001" / "x.npy"
    data = file.read_bytes()
    file.write_bytes(data[:-1] + b"?")
    with pytest.raises(DataError, match=r"shard-00001/x\.npy is damaged"):
        StoredTasks(stored.folder).verify()
    file.write_bytes(data[:-1])
    with pytest.raises(DataError, match="shard-00001"):
        StoredTasks(stored.folder)
    (tmp_path / "tasks" / "tasks.json").write_text("{}")
    with pytest.raises(DataError, match=r"tasks\.json"):
        StoredTasks(stored.folder)


ONE = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    ("tasks", "facts"),
    [
        ([], ["empty"]),
        ([("a", (ONE, np.zeros(3, int)), (ONE, np.zeros(2, int)))], ["'a'", "(2, 3)", "(3,)"]),
        ([("a", (ONE[:0], np.zeros(0, int)), (ONE, np.zeros(2, int)))], ["'a'", "at least one"]),
        ([("a", (ONE, np.array([0, -1])), (ONE, np.zeros(2, int)))], ["'a'", "-1"]),
        ([("a", (ONE * np.nan, np.zeros(2)), (ONE, np.zeros(2)))], ["'a'", "x"]),
        ([("a", (ONE, ONE), (ONE, ONE)), ("b", (ONE[:, :2], ONE), (ONE[:, :2], ONE))], ["'b'", "(2,)", "(3,)"]),
        ([("a", (ONE, ONE), (ONE[:, :2], ONE))], ["'a'", "test_x", "(2, 2)", "(2, 3)"]),
        ([("a", ([[1.0], [1.0, 2.0]], [0, 1]), (ONE, ONE))], ["'a'", "arrays"]),
        *(
            ([("a", (ONE, ONE), (ONE, ONE)), wrong], ["task 1", fact])
            for wrong, fact in [
                (None, "None"),
                (7, "7"),
                ("abc", "'abc'"),
                ((), "()"),
                (("b", (ONE, ONE)), "('b', (array of shape (2, 3), array of shape (2, 3)))"),
                (("b", (ONE, ONE), (ONE, None)), "None"),
                (("b", (ONE, ONE), None), "None"),
                (("b", ONE, ONE), "array of shape (2, 3)"),
                ((None, (ONE, ONE), (ONE, ONE)), "None"),
            ]
        ),
        (None, ["tasks", "None"]),
        (3, ["tasks", "3"]),
    ],
)
def test_tasks_that_cannot_be_stored_are_refused_and_nothing_stays(
    tmp_path: Path, tasks: list[Any], facts: list[str]
) -> None:
    assert_refused(lambda: write_tasks(tmp_path / "tasks", tasks), facts)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_empty_or_holds_no_tasks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").touch()
    assert_refused(lambda: write_tasks(tmp_path / "mine", make_tasks([(1, 1)])), ["mine", "empty"])
    assert_refused(lambda: StoredTasks(tmp_path / "mine"), ["mine", "tasks.json"])
