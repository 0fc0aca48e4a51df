"""Task sets: random draws, selections, fingerprints and memory-mapped examples."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshot.errors import InputError
from anyshot.tasks import PairTasks, TaskSet, load_tasks
from tests.support.task_sets import KEY, make_toy


@given(st.integers(0, 2**32 - 1), st.integers(0, 4), st.integers(0, 6), st.sampled_from(["train", "test"]))
def test_draws_are_different_examples_of_the_task_and_part(seed: int, task: int, count: int, part: str) -> None:
    tasks = make_toy()
    allowed = tasks.train_rows if part == "train" else tasks.test_rows
    count = min(count, allowed.shape[1])
    rows = np.asarray(tasks.draw(jax.random.key(seed), task, count, part))
    assert len(set(rows.tolist())) == count
    assert set(rows.tolist()) <= set(allowed[task].tolist())


def test_every_example_and_order_is_drawn_equally_often() -> None:
    tasks = make_toy(num_tasks=1, train=4)
    rows = jax.vmap(lambda key: tasks.draw(key, 0, 2))(jax.random.split(KEY, 12_000))
    counts = np.bincount(np.asarray(rows[:, 0] * 4 + rows[:, 1]), minlength=16).reshape(4, 4)
    assert (np.diag(counts) == 0).all()
    expected = 1000
    chi_square = ((counts[~np.eye(4, dtype=bool)] - expected) ** 2 / expected).sum()
    assert chi_square < 31.3, "11 degrees of freedom: exceeded once in a thousand times"


COUNTS = st.sampled_from([[2, 5, 3], [1, 6], [4, 4, 4, 1]])


def make_uneven(counts: list[int]) -> TaskSet:
    """Tasks of different sizes; an example is 10 times its task, plus its number in it."""
    pairs = {f"{task}": (10 * task + np.arange(count), np.full(count, task)) for task, count in enumerate(counts)}
    return TaskSet.from_arrays(pairs, test_size=0)


@pytest.mark.medium
@given(COUNTS, st.integers(0, 2**32 - 1))
def test_draws_of_different_sizes_hold_no_row_twice_and_no_other_task(counts: list[int], seed: int) -> None:
    tasks = make_uneven(counts)
    for task, count in enumerate(counts):
        for drawn in range(count + 1):
            rows = np.asarray(tasks.draw(jax.random.key(seed), task, drawn))
            examples = tasks.x[rows].tolist()
            assert len(set(examples)) == drawn
            assert set(examples) <= set(range(10 * task, 10 * task + count))


@pytest.mark.medium
def test_every_row_of_every_task_is_drawn_equally_often() -> None:
    tasks = make_uneven([2, 5, 3])
    keys = jax.random.split(KEY, 3000)
    for task, count in enumerate([2, 5, 3]):
        first = tasks.x[np.asarray(jax.vmap(lambda key, task=task: tasks.draw(key, task, 1))(keys))].ravel()
        found = np.bincount(first - 10 * task, minlength=count)
        assert len(found) == count
        assert ((found - 3000 / count) ** 2 / (3000 / count)).sum() < 18.5, "4 degrees of freedom or fewer, 1 in 1000"


@pytest.mark.medium
def test_traced_shots_are_at_most_those_of_the_task() -> None:
    tasks = make_uneven([2, 5, 3])
    traced = jax.vmap(
        jax.vmap(lambda key, task: tasks.shots(key, task, 4, size=5), in_axes=(0, None)), in_axes=(None, 0)
    )
    shots = traced(jax.random.split(KEY, 200), jnp.arange(3))
    for task, there in enumerate([2, 5, 3]):
        count = min(there, 4)
        assert (shots.count[task] == count).all()
        drawn = np.sort(np.asarray(shots.x[task, :, :count]), axis=1)
        assert (np.diff(drawn, axis=1) > 0).all(), "no example twice"
        assert set(drawn.ravel().tolist()) == set(range(10 * task, 10 * task + there))


def test_a_selection_of_different_sizes() -> None:
    tasks = make_uneven([2, 5, 3, 3])
    assert tasks.select([0, 2]).train_rows.shape == (2, 3)
    assert tasks.select([2, 0]).counts().tolist() == [3, 2]
    equal = tasks.select([2, 3])
    assert equal.train_counts is None
    assert sorted(equal.x[np.asarray(equal.draw(KEY, 1, 3))].tolist()) == [30, 31, 32]


def test_sizes_are_in_the_fingerprint_only_where_they_differ() -> None:
    tasks = make_toy()
    fingerprints = [
        dataclasses.replace(tasks, fingerprint="", train_counts=counts).fingerprint
        for counts in (None, (6, 6, 6, 6, 6), (6, 6, 6, 6, 5))
    ]
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]


@pytest.mark.parametrize("kind", [TaskSet, PairTasks])
def test_draws_are_the_same_inside_a_compiled_function_on_device(kind: type[TaskSet]) -> None:
    tasks = make_toy(kind)
    compiled = eqx.filter_jit(jax.vmap(lambda set_, key, task: set_.shots(key, task, 3, size=5), in_axes=(None, 0, 0)))
    keys = jax.random.split(KEY, 5)
    together = compiled(tasks.on_device(), keys, jnp.arange(5))
    for task in range(5):
        alone = tasks.shots(keys[task], task, 3, size=5)
        assert (alone.x == together.x[task]).all()
        assert (alone.y == together.y[task]).all()
    assert (together.count == 3).all()


def test_a_selection_draws_nothing_of_other_tasks_and_has_its_own_fingerprint() -> None:
    tasks = make_toy()
    chosen = tasks.select([4, 1])
    assert chosen.task_names == ("task 4", "task 1")
    assert set(np.asarray(chosen.draw(KEY, 0, 6)).tolist()) == set(tasks.train_rows[4].tolist())
    fingerprints = {
        tasks.fingerprint,
        chosen.fingerprint,
        tasks.select([1, 4]).fingerprint,
        tasks.select([4]).fingerprint,
    }
    assert len(fingerprints) == 4
    train, test = tasks.offline_split()
    assert (train.task_names, test.task_names) == (tasks.task_names[:3], tasks.task_names[3:])


def test_a_selection_keeps_the_offline_split_only_if_training_tasks_come_first() -> None:
    tasks = make_toy()  # the first 3 of 5 train
    train, test = tasks.select([2, 0, 4]).offline_split()
    assert (train.task_names, test.task_names) == (("task 2", "task 0"), ("task 4",))
    for mixed in ([4, 1], [1, 4, 0], [3, 4]):
        with pytest.raises(InputError, match="toy has no offline split: 0 of"):
            tasks.select(mixed).offline_split()


def make_own(**changed: object) -> TaskSet:
    rows = np.arange(8).reshape(2, 4)
    fields = {
        "name": "own",
        "x": np.arange(8),
        "y": np.zeros(8),
        "train_rows": rows[:, :3],
        "test_rows": rows[:, 3:],
        "task_names": ("a", "b"),
    }
    return TaskSet(**{**fields, **changed})  # type: ignore[arg-type]


def test_a_set_of_ones_own_has_a_fingerprint_of_all_that_is_in_it() -> None:
    others = [
        make_own(x=np.arange(8) + 1),
        make_own(y=np.ones(8)),
        make_own(train_rows=np.array([[0, 1], [4, 5]])),
        make_own(test_rows=np.array([[], []], int)),
        make_own(task_names=("a", "c")),
        make_own(train_tasks=1),
    ]
    own = make_own()
    assert len({tasks.fingerprint for tasks in (own, *others)}) == 1 + len(others)
    assert own.fingerprint == make_own().fingerprint == make_own(x=jnp.arange(8)).fingerprint
    assert make_own(fingerprint="mine").fingerprint == "mine"
    sinusoid = load_tasks("sinusoid")
    assert sinusoid.fingerprint == dataclasses.replace(sinusoid, fingerprint="").fingerprint


@pytest.mark.usefixtures("without_types")
def test_a_list_of_names_becomes_a_tuple() -> None:
    assert make_own(task_names=["a", "b"]).task_names == ("a", "b")


def test_boolean_labels_are_classes() -> None:
    booleans, numbers = (make_own(y=(np.arange(8) % 2).astype(dtype)) for dtype in (bool, np.int32))
    assert booleans.example()[1].dtype == np.int32
    assert booleans.y.tolist() == [0, 1] * 4
    assert booleans.fingerprint == numbers.fingerprint


def test_an_example_needs_no_second_one() -> None:
    x, y = np.zeros((2, 3), np.float32), np.arange(2, dtype=np.int32)
    tasks = TaskSet("single", x, y, np.array([[0], [1]]), np.zeros((2, 0), int), ("a", "b"))
    example = tasks.example()
    assert [(leaf.shape, leaf.dtype) for leaf in example] == [((3,), np.float32), ((), np.int32)]


@pytest.fixture
def mapped(tmp_path: Path) -> TaskSet:
    """A task set whose examples are a memory-mapped file."""
    tasks = make_toy()
    np.save(tmp_path / "x.npy", tasks.x)
    return dataclasses.replace(tasks, x=np.load(tmp_path / "x.npy", mmap_mode="r"))


def test_a_file_on_the_host_is_not_copied_into_a_compiled_function(mapped: TaskSet) -> None:
    for transformed, key in ((jax.jit, KEY), (jax.vmap, jax.random.split(KEY, 2))):
        with pytest.raises(InputError, match=r"call tasks.on_device\(\) first"):
            transformed(lambda key: mapped.shots(key, 3, 4))(key)
        transformed(lambda key: mapped.draw(key, 3, 4))(key)  # rows are small
    alone, device = mapped.shots(KEY, 3, 4), mapped.on_device()
    assert (jax.jit(lambda key: device.shots(key, 3, 4))(KEY).x == alone.x).all()
    assert mapped.example()[0].shape == ()


def test_the_values_of_a_set_with_a_fingerprint_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyshot.tasks.taskset_checks.check_finite", lambda *_: pytest.fail("read"))
    monkeypatch.setattr("anyshot.tasks.fingerprint.array_sha256", lambda *_: pytest.fail("hashed"))
    np.save(tmp_path / "x.npy", np.full(8, np.nan))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert make_own(x=mapped, fingerprint="known").select([1]).num_tasks == 1
