"""`TaskSet.from_arrays`: own arrays become a pool with train and test rows, or one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshot.errors import InputError
from anyshot.tasks import TaskSet

RNG = np.random.default_rng(0)


def make_pair(rows: int = 20, **changed: Any) -> tuple[Any, Any]:
    return changed.get("x", RNG.normal(size=(rows, 3))), changed.get("y", np.arange(rows) % 2)


class Frame:
    """What a pandas DataFrame is to NumPy: it has a shape and can be converted, but is not an array."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.shape = values, values.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.values


@given(st.integers(1, 6), st.integers(1, 30), st.floats(0, 0.99) | st.integers(0, 29), st.integers(0, 2**32 - 1))
def test_every_row_of_a_task_is_used_once(num_tasks: int, rows: int, test_size: float, seed: int) -> None:
    pairs = [(np.arange(rows) + 100 * task, np.full(rows, task)) for task in range(num_tasks)]
    expected = test_size if isinstance(test_size, int) else round(test_size * rows)
    if expected >= rows:
        with pytest.raises(InputError, match="test_size"):
            TaskSet.from_arrays(pairs, test_size=test_size, seed=seed)
        return
    tasks = TaskSet.from_arrays(pairs, test_size=test_size, seed=seed)
    assert tasks.task_names == tuple(f"task {task}" for task in range(num_tasks))
    assert (tasks.train_rows.shape, tasks.test_rows.shape) == ((num_tasks, rows - expected), (num_tasks, expected))
    for task, (x, _) in enumerate(pairs):
        used = np.concatenate([tasks.train_rows[task], tasks.test_rows[task]])
        assert sorted(tasks.x[used].tolist()) == x.tolist()
        assert (tasks.y[used] == task).all()


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
        (
            lambda: TaskSet.from_arrays({"a": make_pair(20), "b": make_pair(18)}),
            ["'a'", "20", "'b'", "18", "same number of rows"],
        ),
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
        (lambda: TaskSet.from_arrays({"a": make_pair(y=np.array(["x", "y"] * 10))}), ["y of task 'a'", "<U1"]),
        (lambda: TaskSet.from_arrays({"a": make_pair(x=np.full((20, 3), np.nan))}), ["x", "non-finite"]),
        (lambda: TaskSet.from_arrays({"a": make_pair(y=np.arange(20) - 1)}), ["y", "-1"]),
        (lambda: TaskSet.from_arrays({"a": make_pair()}, test_size=1.0), ["test_size", "1.0"]),
        (lambda: TaskSet.from_arrays({"a": make_pair()}, test_size=-1), ["test_size", "-1"]),
        (lambda: TaskSet.from_arrays({"a": make_pair()}, test_size=True), ["test_size", "True"]),
        (lambda: TaskSet.from_arrays({"a": make_pair()}, test_size=float("nan")), ["test_size", "nan"]),
        (lambda: TaskSet.from_arrays({"a": make_pair()}, test_size=20), ["test_size", "20"]),
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
