"""Pairs: balanced, of the right classes and parts, and never an image with itself."""

from __future__ import annotations

import hashlib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anyshot.errors import InputError
from anyshot.tasks import PairTasks, load_tasks
from tests.support.task_sets import KEY, make_toy


def check_pairs(tasks: PairTasks, draws: int, size: int, part: str) -> np.ndarray:
    """Draw pairs of every task and check what must hold of them; returns the pool's rows (draws, size, 2)."""
    task = np.arange(draws) % tasks.num_tasks
    draw = jax.jit(jax.vmap(lambda key, which: tasks.draw(key, which, size, part)))
    rows = np.asarray(draw(jax.random.split(KEY, draws), jnp.asarray(task)))
    classes, own = np.asarray(tasks.y)[rows], np.asarray(tasks.y)[np.asarray(tasks.train_rows)[task, :1]]
    same = classes[..., 0] == classes[..., 1]
    assert (classes[..., 0] == own).all(), "the reference is of the task's class"
    assert (tasks.look_up(rows[:5])[1] == same[:5]).all()
    assert (same.reshape(draws, size // 2, 2).sum(axis=2) == 1).all(), "one positive in every two"
    assert (rows[..., 0] != rows[..., 1]).all(), "no image is compared with itself"
    assert abs(same[:, 0].mean() - 0.5) < 4 * 0.5 / np.sqrt(draws), "which of the two comes first is random"
    allowed = tasks.train_rows if part == "train" else tasks.test_rows
    assert set(rows.ravel().tolist()) <= set(np.asarray(allowed).ravel().tolist())
    return rows


@pytest.mark.parametrize(("part", "images"), [("train", 30), ("test", 20)])
def test_pairs_over_ten_thousand_draws(part: str, images: int) -> None:
    rows = check_pairs(make_toy(PairTasks), 10_000, 6, part)
    assert len(set(rows.ravel().tolist())) == images, "every image turns up"


def test_pairs_of_an_odd_batch_and_a_single_class() -> None:
    tasks = make_toy(PairTasks)
    assert tasks.draw(KEY, 0, 5).shape == (5, 2)
    with pytest.raises(InputError, match="single task"):
        tasks.select([2]).draw(KEY, 0, 2)
    assert [leaf.shape for leaf in tasks.example()] == [(2,), ()]


@pytest.mark.slow
def test_real_pairs_never_show_a_test_class_in_training(with_data: Path) -> None:
    whole = load_tasks("contextual-miniimagenet")
    assert (whole.num_tasks, whole.x.shape) == (100, (60_000, 84, 84, 3))
    train, test = whole.offline_split()
    assert (train.num_tasks, test.num_tasks) == (90, 10)
    seen = check_pairs(train, 9_990, 20, "train")
    assert np.asarray(whole.y)[seen].max() == 89
    unseen = check_pairs(test, 1_000, 20, "test")
    assert np.asarray(whole.y)[unseen].min() == 90
    everything = np.concatenate([whole.train_rows, whole.test_rows], axis=1)
    assert len(np.unique(everything)) == 60_000
    assert (np.asarray(whole.y)[everything] == np.arange(100)[:, None]).all()


@pytest.mark.slow
def test_the_images_miniimagenet_has_twice_are_those_in_the_documentation(with_data: Path) -> None:
    tasks = load_tasks("contextual-miniimagenet")
    first: dict[bytes, int] = {}
    rows = enumerate(hashlib.sha256(image).digest() for image in tasks.x)
    twice = np.array([(first[digest], row) for row, digest in rows if first.setdefault(digest, row) != row])
    classes, train = np.asarray(tasks.y)[twice], np.isin(twice, tasks.train_rows)
    assert len(twice) == 8
    assert (classes[:, 0] != classes[:, 1]).sum() == 7
    assert (train[:, 0] != train[:, 1])[classes[:, 0] != classes[:, 1]].sum() == (train[:, 0] != train[:, 1]).sum() == 4
    assert ((classes < tasks.train_tasks).all(axis=1) | (classes >= tasks.train_tasks).all(axis=1)).all()
