"""`TaskSet.from_arrays`: own arrays become a pool with train and test rows, or one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshot.errors import InputError
from anyshot.tasks import FunctionEncoder, PairTasks, TaskSet
from anyshot.tasks.rows import PARTS

RNG = np.random.default_rng(0)


def make_pair(rows: int = 20, **changed: Any) -> tuple[Any, Any]:
    return changed.get("x", RNG.normal(size=(rows, 3))), changed.get("y", np.arange(rows) % 2)


class Frame:
    """What a pandas DataFrame is to NumPy: it has a shape and can be converted, but is not an array."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.shape = values, values.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.values


SIZES = st.lists(st.integers(1, 30), min_size=1, max_size=6)


@given(SIZES, st.floats(0, 0.99) | st.integers(0, 29), st.integers(0, 2**32 - 1))
def test_every_row_of_a_task_is_used_once(sizes: list[int], test_size: float, seed: int) -> None:
    pairs = [(np.arange(rows) + 100 * task, np.full(rows, task)) for task, rows in enumerate(sizes)]
    expected = [test_size if isinstance(test_size, int) else round(test_size * rows) for rows in sizes]
    if any(test >= rows for test, rows in zip(expected, sizes, strict=True)):
        with pytest.raises(InputError, match="test_size"):
            TaskSet.from_arrays(pairs, test_size=test_size, seed=seed)
        return
    tasks = TaskSet.from_arrays(pairs, test_size=test_size, seed=seed)
    assert tasks.task_names == tuple(f"task {task}" for task in range(len(sizes)))
    assert tasks.counts("test").tolist() == expected
    assert (tasks.train_counts is None) == (len(set(tasks.counts("train").tolist())) == 1)
    for task, (x, _) in enumerate(pairs):
        used = np.concatenate([tasks.rows_of(task, "train"), tasks.rows_of(task, "test")])
        assert sorted(tasks.x[used].tolist()) == x.tolist()
        padded = np.concatenate([tasks.train_rows[task], tasks.test_rows[task]])
        assert (tasks.y[padded] == task).all(), "padding is of the same task"


@given(st.lists(st.integers(1, 9), min_size=2, max_size=5), st.integers(0, 99))
def test_a_smaller_task_elsewhere_changes_no_split(sizes: list[int], seed: int) -> None:
    pairs = {f"{task}": (np.arange(rows) + 100 * task, np.zeros(rows)) for task, rows in enumerate(sizes)}
    tasks, alone = (TaskSet.from_arrays(some, test_size=0.3, seed=seed) for some in (pairs, {"0": pairs["0"]}))
    for part in PARTS:
        assert tasks.x[tasks.rows_of(0, part)].tolist() == alone.x[alone.rows_of(0, part)].tolist()


def test_labels_of_all_kinds_and_missing_ones() -> None:
    x = np.arange(6)
    tasks = TaskSet.from_arrays(
        {
            "strings": (x, ["b", "a", None, "a", float("nan"), "b"]),
            "numbers": (x[:3], [7, 7, 3]),
            "booleans": (x[:2], pd.Series([True, pd.NA], dtype="boolean")),
            "categories": (x[:2], pd.Categorical(["c", "a"])),
        },
        test_size=0,
    )
    assert tasks.class_names == (1, 3, 7, "a", "b", "c")
    assert tasks.unlabelled == (2, 0, 1, 0)
    assert tasks.x.tolist() == [0, 1, 3, 5, 0, 1, 2, 0, 0, 1]
    assert tasks.decode(tasks.y).tolist() == ["b", "a", "a", "b", 7, 7, 3, 1, "c", "a"]
    assert (tasks.encode(["b", "a"]) == [4, 3]).all()
    expected = [[0, 0, 0, 1, 1, 0], [0, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 1]]
    assert (tasks.task_classes == np.array(expected, bool)).all()
    outputs = np.arange(6.0)[::-1]  # 1 has the largest output, but the task of strings has no such class
    assert tasks.choose([outputs, -outputs], 0).tolist() == ["a", "b"]
    assert tasks.select([2, 1]).unlabelled == (1, 0)


def test_whole_numbers_from_0_on_keep_their_fingerprint() -> None:
    """As written by version 0.2, when all labels were such numbers."""
    x = np.arange(24, dtype=np.float32).reshape(12, 2)
    labels = np.arange(12) % 3
    tasks = TaskSet.from_arrays({"a": (x, labels), "b": (x + 1, labels)}, test_size=4)
    assert tasks.class_names is None
    assert tasks.fingerprint == "7e5c9ee5107edce69839b4d2408fa3048b88d14fcfc32726d38117831a868a58"
    assert (
        TaskSet.from_arrays({"a": (x, labels == 1)}).fingerprint
        == "a8f24e88538a8f2e004ed1208224d6954dafe0901ba95bf2f33bd7e92d5fc341"
    )
    assert (tasks.decode([2, 0]) == [2, 0]).all()


@pytest.mark.parametrize("shape", [(), (1,), (3,)])
def test_targets_of_a_regression(shape: tuple[int, ...]) -> None:
    y = RNG.normal(size=(8, *shape))
    y[3] = np.nan
    tasks = TaskSet.from_arrays({"a": (np.arange(8), y), "b": (np.arange(5), np.abs(y[4:] + 5)[[0, 1, 2, 3, 0]])})
    assert (tasks.example()[1].shape, tasks.unlabelled, tasks.class_names) == (shape, (1, 0), None)
    with pytest.raises(InputError, match="no classes"):
        tasks.decode([0])


def test_an_encoder_makes_the_inputs() -> None:
    encoder = FunctionEncoder(lambda texts: [[len(text)] for text in texts], "lengths")
    tasks = TaskSet.from_arrays({"a": (["x", "xyz"], ["no", "yes"])}, encoder=encoder, test_size=0)
    assert (tasks.x == [[1], [3]]).all()
    assert tasks.x.dtype == np.float32
    assert tasks.encoder is encoder


def test_the_split_depends_on_the_seed_and_the_name_of_the_task_only() -> None:
    a, b, c = (make_pair() for _ in range(3))
    tasks = TaskSet.from_arrays({"a": a, "b": b})
    again = TaskSet.from_arrays({"c": c, "b": b})
    assert (tasks.test_rows[1] == again.test_rows[1]).all()
    assert (tasks.test_rows[0] != again.test_rows[0]).any()
    assert (tasks.test_rows != TaskSet.from_arrays({"a": a, "b": b}, seed=1).test_rows).any()
    assert tasks.fingerprint == TaskSet.from_arrays({"a": a, "b": b}).fingerprint


@pytest.mark.usefixtures("without_types")
def test_names_split_and_origin() -> None:
    tasks = TaskSet.from_arrays({1: make_pair(), "two": make_pair()}, name="mine", train_tasks=1)  # type: ignore[dict-item]
    assert (tasks.name, tasks.task_names, tasks.train_tasks, tasks.origin) == ("mine", ("1", "two"), 1, None)


def test_booleans_become_classes_and_frames_become_arrays() -> None:
    x, y = make_pair()
    tasks = TaskSet.from_arrays({"frame": (Frame(x), Frame(y == 1)), "array": (x, y.astype(np.int32))})
    assert (tasks.x[:20] == x).all()
    assert tasks.y.dtype == np.int32
    assert (tasks.y[:20] == y).all()


@pytest.mark.usefixtures("without_types")
@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: TaskSet.from_arrays({}), ["tasks"]),
        (lambda: TaskSet.from_arrays([]), ["tasks"]),
        (lambda: TaskSet.from_arrays("ab"), ["tasks", "str"]),
        (lambda: TaskSet.from_arrays(None), ["tasks", "NoneType"]),
        (lambda: TaskSet.from_arrays({1: make_pair(), "1": make_pair()}), ["tasks", "names"]),
        (lambda: TaskSet.from_arrays([make_pair()[0]]), ["task 0", "pair"]),
        (lambda: TaskSet.from_arrays({"a": make_pair(x=np.zeros((19, 3)))}), ["'a'", "(19, 3)", "(20,)"]),
        (lambda: TaskSet.from_arrays({"a": make_pair(0)}), ["'a'", "(0, 3)"]),
        (lambda: TaskSet.from_arrays({"a": (1.0, 2.0)}), ["'a'", "x", "1.0"]),
        (lambda: TaskSet.from_arrays({"a": ([[1], [1, 2]], [0, 1])}), ["'a'", "x", "different shapes"]),
        (
            lambda: TaskSet.from_arrays({"a": make_pair(), "b": make_pair(x=np.zeros((20, 4)))}),
            ["'a'", "(20, 3)", "'b'", "(20, 4)"],
        ),
        (
            lambda: TaskSet.from_arrays({"a": make_pair(), "b": make_pair(y=np.zeros(20))}),
            ["y", "int64", "'b'", "float64"],
        ),
        (
            lambda: TaskSet.from_arrays({"a": make_pair(y=["x", "y"] * 10), "b": make_pair(y=np.zeros(20))}),
            ["y", "'a'", "strings", "'b'", "float64"],
        ),
        (lambda: TaskSet.from_arrays({"a": make_pair(y=["x", 0.5] * 10)}), ["y of task 'a'", "strings and floats"]),
        (lambda: TaskSet.from_arrays({"a": make_pair(), "b": make_pair(y=["0"] * 20)}), ["0", "'0'", "convert"]),
        (lambda: TaskSet.from_arrays({"a": make_pair(), "b": make_pair(y=[None] * 20)}), ["'b'", "no label", "20"]),
        (lambda: TaskSet.from_arrays({"a": make_pair(y=np.full(20, np.inf))}), ["y", "non-finite"]),
        (lambda: TaskSet.from_arrays({"a": make_pair(x=["text"] * 20)}), ["x of task 'a'", "<U4"]),
        (
            lambda: PairTasks.from_arrays({"a": make_pair(20), "b": make_pair(18)}),
            ["PairTasks", "same number of rows", "(15, 14)"],
        ),
        (lambda: TaskSet.from_arrays({"a": make_pair(x=np.full((20, 3), np.nan))}), ["x", "non-finite"]),
        (lambda: TaskSet.from_arrays({"a": make_pair(y=np.arange(40).reshape(20, 2) - 1)}), ["y", "-1"]),
        (lambda: TaskSet.from_arrays({"a": make_pair()}, test_size=1.0), ["test_size", "1.0"]),
        (lambda: TaskSet.from_arrays({"a": make_pair()}, test_size=-1), ["test_size", "-1"]),
        (lambda: TaskSet.from_arrays({"a": make_pair()}, test_size=True), ["test_size", "True"]),
        (lambda: TaskSet.from_arrays({"a": make_pair()}, test_size=float("nan")), ["test_size", "nan"]),
        (lambda: TaskSet.from_arrays({"a": make_pair()}, test_size=20), ["test_size", "20"]),
        (lambda: TaskSet.from_arrays({"a": make_pair(), "b": make_pair(5)}, test_size=5), ["test_size", "5", "'b'"]),
        (lambda: TaskSet.from_arrays({"a": make_pair()}, test_size="a third"), ["test_size", "a third"]),
        (lambda: TaskSet.from_arrays({"a": make_pair()}, seed=-1), ["seed", "-1"]),
        (lambda: TaskSet.from_arrays({"a": make_pair()}, train_tasks=2), ["train_tasks", "2"]),
    ],
)
def test_bad_arrays_get_one_sentence(call: Any, names: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    assert all(name in message for name in names), message
    assert "\n" not in message
    assert len(message) < 300
