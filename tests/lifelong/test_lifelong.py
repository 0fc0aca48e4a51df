"""A life: labels and what was learned survive, follow corrections and deletions, and no half of anything is seen."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from anyshot.errors import DataError, InputError
from anyshot.lifelong import Lifelong
from anyshot.lifelong.home import FIRST, UPDATES_PER_LABEL
from anyshot.lifelong.learning import Learning
from tests.support.lives import TINY, draw_task, make_life

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]
POINTS = np.random.default_rng(9).normal(size=(7, 3)).astype(np.float32)


@pytest.fixture
def life(tmp_path: Path) -> Any:
    with make_life(tmp_path / "life") as made:
        yield made


def fill(life: Lifelong, tasks: int = 3, count: int = 12) -> None:
    for number in range(tasks):
        x, y = draw_task(number, count)
        life.task(f"task {number}", classes=["no", "yes"]).observe(x, y)


def test_opened_again_it_predicts_and_goes_on_learning_as_if_never_closed(tmp_path: Path) -> None:
    with make_life(tmp_path / "once") as whole, make_life(tmp_path / "twice") as first:
        for life in (whole, first):
            fill(life)
            assert life.learn(updates=3) == 3
        found = whole.task("task 1").predict_proba(POINTS)
        whole.learn(updates=2)
    with Lifelong(tmp_path / "twice") as again:
        np.testing.assert_array_equal(again.task("task 1").predict_proba(POINTS), found)
        again.learn(updates=2)
        with Lifelong(tmp_path / "once") as other:
            for number in range(3):
                one, two = (life.task(f"task {number}").predict_proba(POINTS) for life in (again, other))
                np.testing.assert_array_equal(one, two)
            assert again.table.equals(other.table)


def test_the_mixture_is_what_bayes_says_and_scratch_is_what_scikit_learn_says(life: Lifelong) -> None:
    x, y = draw_task(0, 9)
    task = life.task("one", classes=["no", "yes"])
    task.observe(x[:8], y[:8])
    table = task.table
    assert (table["loss.learner"] >= 0).all()
    assert table["weight.learner"].iloc[0] == pytest.approx(FIRST[True][0])
    # What the last label would be predicted as by logistic regression on the others.
    fitted = LogisticRegression().fit(x[:8].astype(np.float64), y[:8])
    task.observe(x[8:], y[8:])
    right = fitted.predict_proba(x[8:].astype(np.float64))[0, list(fitted.classes_).index(y[8])]
    assert np.exp(-task.table["loss.scratch"].iloc[-1]) == pytest.approx(right, abs=0.02)
    assert task.table["loss"].sum() <= min(task.table[f"loss.{e}"].sum() for e in task.weights) + np.log(9 / 0.2)


def test_by_default_it_learns_until_there_were_two_updates_for_each_label(life: Lifelong) -> None:
    fill(life, tasks=2, count=5)
    assert life.learn() == 10 * UPDATES_PER_LABEL
    assert life.learn() == 0
    life.task("task 1").observe(*draw_task(9, 3))
    with life.learning():
        wait_until(lambda: life._home.updates_due == 0)
    assert life._home.learning is not None
    assert life._home.learning.now.updates == 13 * UPDATES_PER_LABEL


def wait_until(there: Any, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not there() and time.monotonic() < end:
        time.sleep(0.01)


def test_corrections_and_deletions_are_as_if_the_labels_had_been_so_from_the_beginning(tmp_path: Path) -> None:
    x, y = draw_task(0)
    with make_life(tmp_path / "a") as wrong, make_life(tmp_path / "b") as right:
        task = wrong.task("one", classes=["no", "yes"])
        ids = task.observe(x[:6], ["yes" if label == "no" else "no" for label in y[:6]])
        more = task.observe(x[6:8], y[6:8])
        task.correct(ids, y[:6])
        task.delete(more)
        other = right.task("one", classes=["no", "yes"])
        other.observe(x[:6], y[:6])
        np.testing.assert_allclose(task.predict_proba(POINTS), other.predict_proba(POINTS), atol=1e-12)
        assert task.table["label"].tolist() == other.table["label"].tolist() == y[:6].tolist()
        for life in (wrong, right):
            life.learn(updates=2)
        np.testing.assert_allclose(task.predict_proba(POINTS), other.predict_proba(POINTS), atol=1e-6)
    with Lifelong(tmp_path / "a") as again:
        assert again.task("one").table["label"].tolist() == y[:6].tolist()


def test_a_forgotten_task_leaves_nothing_on_disk_nor_in_the_weights(tmp_path: Path) -> None:
    secret = np.full((4, 3), 123.456, np.float32) * np.arange(1, 5, dtype=np.float32)[:, None]
    with make_life(tmp_path / "a") as life, make_life(tmp_path / "never") as never:
        x, y = draw_task(0)
        for one in (life, never):
            one.task("kept", classes=["no", "yes"]).observe(x, y)
        life.task("Marguerite", classes=["no", "yes"]).observe(secret, ["no", "yes", "no", "yes"])
        life.learn(updates=4)
        life.save("before")
        life.forget("Marguerite")
        never.learn(updates=4)
        assert life.tasks == ["kept"]
        np.testing.assert_allclose(
            life.task("kept").predict_proba(POINTS), never.task("kept").predict_proba(POINTS), atol=1e-6
        )
        held = b"".join(path.read_bytes() for path in sorted((tmp_path / "a").rglob("*")) if path.is_file())
        assert b"Marguerite" not in held
        assert not any(row.tobytes() in held for row in secret)
        assert [one.tag for one in life.snapshots] == [""]


def test_classes_may_appear_and_outputs_grow_without_losing_what_was_learned(life: Lifelong) -> None:
    fill(life, tasks=2)
    life.learn(updates=3)
    new = life.task("no label yet", classes=["no", "yes"])
    before = new.predict_proba(POINTS)
    animals = life.task("animals")
    with pytest.raises(InputError, match="classes of task 'animals' are not known"):
        animals.predict(POINTS)
    animals.observe(POINTS[:5], ["cat", "dog", "cow", "hen", "cat"])
    assert animals.classes == ["cat", "dog", "cow", "hen"]
    assert animals.predict_proba(POINTS).shape == (7, 4)
    np.testing.assert_allclose(new.predict_proba(POINTS), before, atol=1e-6)
    assert life.learn(updates=1) == 1
    later = life.task("later")
    later.observe(POINTS[:2], [True, False])
    assert set(later.predict(POINTS).tolist()) <= {True, False}
    np.testing.assert_allclose(later.predict_proba(POINTS).sum(axis=1), 1)


@pytest.mark.parametrize("unit", [1e-6, 1e4, 1e9])
def test_inputs_may_have_any_unit(life: Lifelong, unit: float) -> None:
    for number in range(2):
        x, y = draw_task(number, 60)
        task = life.task(f"task {number}", classes=["no", "yes"])
        for start in range(0, 40, 10):
            task.observe(unit * x[start : start + 10], y[start : start + 10])
        life.learn(updates=5)
    assert np.mean(task.predict(unit * x[40:]) == y[40:]) >= 0.8


def test_targets_of_a_regression(tmp_path: Path) -> None:
    with make_life(tmp_path / "life") as life:
        task = life.task("line")
        x = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
        y = x @ np.array([1.0, -2.0, 0.5])
        for start in range(0, 30, 5):
            task.observe(x[start : start + 5], y[start : start + 5])
        assert task.weights["learner"] < 0.1  # the targets are linear
        np.testing.assert_allclose(task.predict(POINTS), POINTS @ [1.0, -2.0, 0.5], atol=0.5)
        assert task.table["error"].iloc[-5:].mean() < 0.1
        assert life.learn(updates=1) == 1


def test_frames_with_missing_labels_and_values(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": [20, 30, 40, None, 60, 70], "town": ["a", "b", "a", "b", "a", "c"]})
    with make_life(tmp_path / "life") as life:
        task = life.task("frames")
        assert len(task.observe(frame, ["x", None, "y", "x", "y", None])) == 4
        found = task.predict(frame)
    with Lifelong(tmp_path / "life") as again:
        assert again.task("frames").predict(frame[["town", "age"]]).tolist() == found.tolist()


def test_predictions_while_learning_are_those_of_a_whole_state(life: Lifelong) -> None:
    fill(life)
    task, learning = life.task("task 0"), life._home.learning
    assert learning is not None
    published, seen = [learning.now], []

    class Watched(Learning):
        def __setattr__(self, name: str, value: Any) -> None:
            if name == "now":
                published.append(value)  # before anybody can see it
            super().__setattr__(name, value)

    learning.__class__ = Watched
    with life.learning():
        for _ in range(10):
            before = len(published)
            found = task.predict_proba(POINTS)
            seen.append((found, published[before - 1 :]))
        x, y = draw_task(7)
        life.task("new", classes=["no", "yes"]).observe(x, y)
    for found, states in seen:
        by_each = [task._record.progress.combine(task._experts.predict(learning, POINTS, one)) for one in states]
        assert any(np.array_equal(found, one) for one in by_each), "it is of none of the states of that moment"
    assert len(published) > 10
    assert threading.active_count() < 20
    assert life.snapshots[-1].about["updates"] == learning.now.updates


def test_labels_may_be_deleted_and_corrected_while_learning(life: Lifelong) -> None:
    fill(life, tasks=1)
    x, y = draw_task(3, 60)
    task = life.task("task 0")
    before = life._home.learning.now.updates
    with life.learning():
        for n in range(60):
            ids = task.observe(x[n : n + 1], y[n : n + 1])
            task.correct(ids, ["yes"])
            if n % 2:
                task.delete(ids)
    assert task.labels == 12 + 30
    assert life._home.learning.now.updates > before


def test_snapshots_are_tagged_rolled_back_and_exported(life: Lifelong, tmp_path: Path) -> None:
    fill(life)
    life.learn(updates=2)
    life.save("good")
    before = life.task("task 0").predict_proba(POINTS)
    for _ in range(5):
        life.learn(updates=1)
    assert not np.array_equal(life.task("task 0").predict_proba(POINTS), before)
    assert "good" in [one.tag for one in life.snapshots]
    assert len(life.snapshots) <= 4
    life.roll_back("good")
    np.testing.assert_array_equal(life.task("task 0").predict_proba(POINTS), before)
    path = life.export(tmp_path / "colleague.safetensors")
    assert path.read_bytes().find(b"task 0") < 0
    with Lifelong(tmp_path / "new", start=path, **TINY) as other:
        x, y = draw_task(0)
        task = other.task("task 0", classes=["no", "yes"])
        task.observe(x, y)
        mine = life.task("task 0")._experts.predict(life._home.learning, POINTS)
        np.testing.assert_array_equal(task._experts.predict(other._home.learning, POINTS), mine)


@pytest.mark.parametrize(
    ("do", "words"),
    [
        (lambda life: life.task("a", classes=["x"]), ["classes", "two or more"]),
        (lambda life: life.task("a", classes=["x", "x"]), ["classes", "different"]),
        (lambda life: life.task("task 0", classes=["a", "b"]), ["classes", "'task 0'", "'yes'"]),
        (lambda life: life.task("task 0").observe(POINTS, ["maybe"] * 7), ["'maybe'", "'yes'"]),
        (lambda life: life.task("task 0").observe(POINTS, ["yes"] * 6), ["labels", "6", "7"]),
        (lambda life: life.task("task 0").observe(POINTS, np.ones(7)), ["labels", "classes", "targets"]),
        (lambda life: life.task("task 0").observe(POINTS[:, :2], ["yes"] * 7), ["x", "(3,)", "(7, 2)"]),
        (lambda life: life.task("task 0").observe(POINTS * np.nan, ["yes"] * 7), ["x", "nan"]),
        (lambda life: life.task("task 0").predict(POINTS[0]), ["x", "x[None]"]),
        (lambda life: life.task("task 0").predict((POINTS * 10).astype(np.uint8)), ["x", "float32", "uint8"]),
        (lambda life: life.task("task 0").correct([99], ["yes"]), ["ids", "99"]),
        (lambda life: life.forget("nobody"), ["name", "'nobody'", "task 0"]),
        (lambda life: life.roll_back("nothing"), ["snapshot", "'nothing'"]),
        (lambda life: (life.task("task 0").close(), life._task("task 0").observe(POINTS, ["yes"] * 7)), ["closed"]),
        (lambda life: (life.close(), life.task("task 0")), ["closed", "open it again"]),
    ],
)
def test_what_cannot_be_right_is_refused_and_nothing_is_written(life: Lifelong, do: Any, words: list[str]) -> None:
    fill(life, tasks=1, count=4)
    before = life._home.store.counts
    with pytest.raises(InputError) as refusal:
        do(life)
    assert [word for word in words if word.lower() not in str(refusal.value).lower()] == []
    if life._home.open:
        assert life._home.store.counts.examples == before.examples


def test_settings_of_a_folder_stay_and_one_process_has_it(tmp_path: Path, life: Lifelong) -> None:
    with pytest.raises(
        DataError, match=r"open already in this process \(process \d+ .*; close it first, life\.close\(\)"
    ):
        Lifelong(tmp_path / "life")
    life.close()
    with pytest.raises(InputError, match="max_shots is 5"):
        Lifelong(tmp_path / "life", max_shots=5)
    with Lifelong(tmp_path / "life", max_shots=4) as again:
        assert again.tasks == []
