"""What cannot be right is refused in one sentence, and nothing is written."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from anyshot.lifelong import Lifelong
from tests.support.lives import draw_task, make_life
from tests.support.refusals import assert_refused
from tests.support.stores import all_bytes

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]
X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
YES = ["yes"] * 4


def old(life: Lifelong) -> Any:
    """A task with classes and labels."""
    return life.task("old")


def forgotten(life: Lifelong) -> Any:
    task = life.task("gone", classes=["no", "yes"])
    task.observe(X[:1], ["yes"])
    life.forget("gone", updates=0)
    return task


OF_A_TASK = [
    (lambda task: task.predict([[1, 2, 3], [4]]), ["x", "different shapes"]),
    (lambda task: task.observe([[1, 2, 3], [4]], ["yes", "no"]), ["x", "different shapes"]),
    (lambda task: task.predict(X * 1j), ["x", "complex"]),
    (lambda task: task.predict(X.astype(np.float64) * 1e300), ["x", "at most 1e+10", "e+2", "index"]),
    (lambda task: task.predict(X[0]), ["x", "one row for each input", "(3,)"]),
    (lambda task: task.observe(X, [0.0, 1.0, 0.0, 1.0]), ["labels", "floats", "classes", "astype('Int64')"]),
    (lambda task: task.observe(X, pd.Series([0, 1, None, 1])), ["labels", "floats", "astype('Int64')"]),
    (lambda task: task.observe(X[:1], [math.inf]), ["labels holds"]),
    (lambda task: task.observe(X[:1], YES), ["labels", "4 for 1 input"]),
    (lambda task: task.observe(X[:2], [[1, 2], [3, 4]]), ["labels", "(2, 2)"]),
    (lambda task: task.correct([0], [None]), ["labels", "missing", "delete"]),
    (lambda task: task.correct([0], ["yes", "no"]), ["labels", "2 for 1 id"]),
    (lambda task: task.delete([True, False]), ["ids", "True"]),
    (lambda task: task.delete([[0]]), ["ids", "[[0]]"]),
    (lambda task: task.suggest(X, 2.5), ["n", "2.5"]),
    (lambda task: task.suggest(X, "3"), ["n", "'3'"]),
    (lambda task: task.suggest(X, None), ["n", "None"]),
    (lambda task: task.suggest(X, True), ["n", "True"]),
    (lambda task: task.advise(90, price=1, budget=1), ["target", "between 0 and 1", "accuracy", "90"]),
    (lambda task: task.advise(-1, price=1, budget=1), ["target", "-1"]),
    (lambda task: task.advise("x", price=1, budget=1), ["target", "'x'"]),
    (lambda task: task.advise(None, price=1, budget=1), ["target", "None"]),
    (lambda task: task.advise(0.9, price=1, budget=math.nan), ["budget", "number of at least 0", "nan"]),
    (lambda task: task.estimate(largest=-1), ["largest", "positive", "-1"]),
    (lambda task: task.estimate(level="x"), ["level", "'x'"]),
]
OF_A_LIFE = [
    (lambda life: life.learn(updates="x"), ["updates", "'x'"]),
    (lambda life: life.learn(updates=1.5), ["updates", "1.5"]),
    (lambda life: life.learn(updates=-1), ["updates", "-1"]),
    (lambda life: life.learn(seconds=-1), ["seconds", "-1"]),
    (lambda life: life.forget("old", updates=-1), ["updates", "-1"]),
    (lambda life: life.forget(["old"]), ["name", "['old']"]),
    (lambda life: life.task("n", classes=5), ["classes", "5"]),
    (lambda life: life.task("n", classes=np.eye(2, dtype=int)), ["classes", "array([[1, 0], [0, 1]])"]),
    (lambda life: life.task("n", classes=[1, True]), ["classes", "booleans", "True and 1"]),
    (lambda life: life.task(["n"]), ["name", "['n']"]),
    (lambda life: life.export(life._home.store.folder), ["path", "is a folder"]),
    (lambda life: life.export(life._home.store.folder / "no" / "x"), ["path", "no folder"]),
    (lambda life: life.save(""), ["tag", "''"]),
    (lambda life: life.save("12"), ["tag", "'12'"]),
    (lambda life: life.save("x" * 101), ["tag", "100"]),
    (lambda life: life.save(None), ["tag", "None"]),
    (lambda life: life.save("good"), ["tag", "'good'"]),
    (lambda life: old(life).export(life._home.store.folder), ["path", "is a folder"]),
    (lambda life: old(life).export(life._home.store.folder / "no" / "x.zip"), ["path", "no folder"]),
]


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with make_life(tmp_path_factory.mktemp("a") / "life") as made:
        x, y = draw_task(0, 4)
        made.task("old", classes=["no", "yes"]).observe(x, y)
        made.save("good")
        yield made


@pytest.mark.parametrize(
    ("call", "words"), [(lambda life, do=do: do(old(life)), words) for do, words in OF_A_TASK] + OF_A_LIFE
)
def test_it_is_refused_in_a_sentence_and_nothing_changes(life: Lifelong, call: Any, words: list[str]) -> None:
    before = all_bytes(life._home.store.folder)
    assert_refused(lambda: call(life), words)
    assert all_bytes(life._home.store.folder) == before


@pytest.mark.parametrize(
    "call",
    [
        lambda task: task.predict(X),
        lambda task: task.observe(X, YES),
        lambda task: task.correct([0], ["no"]),
        lambda task: task.delete([0]),
        lambda task: task.suggest(X, 1),
        lambda task: task.estimate(),
        lambda task: task.close(),
        lambda task: task.reopen(),
        lambda task: task.table,
        lambda task: task.export("x.zip"),
    ],
)
def test_a_task_that_was_forgotten_says_so(life: Lifelong, call: Any) -> None:
    task = forgotten(life)
    assert_refused(lambda: call(task), ["'gone' was forgotten"])
    assert "gone" in repr(task)


@pytest.mark.parametrize("wrong", [None, "", "a\0b", 5])
def test_a_folder_that_is_no_path_is_refused(wrong: Any) -> None:
    assert_refused(lambda: Lifelong(wrong), ["folder", repr(wrong)])
    assert_refused(lambda: Lifelong("new", start=wrong or 5), ["start", repr(wrong or 5)])
    assert not Path("new").exists()


def test_a_folder_inside_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "afile").write_text("")
    assert_refused(lambda: Lifelong(tmp_path / "afile" / "x"), ["folder", "afile is a file"])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"network": "nope"}, ["network", "'nope'"]),
        ({"network": {"kind": "mlp", "bogus": 3}}, ["mlp", "'bogus'"]),
        ({"network": {"kind": "mlp", "hidden": [-1]}}, ["hidden", "-1"]),
        ({"network": 7}, ["network", "7"]),
        ({"learner": "nope"}, ["learner", "'nope'"]),
        ({"meta_rate": -1}, ["meta_rate", "-1"]),
        ({"bogus": 3}, ["'bogus'", "meta_rate"]),
        ({"meta_rate": np.float32(1)}, ["meta_rate"]),
        ({"max_shots": 0}, ["max_shots", "0"]),
        ({"encoder": "x"}, ["encoder", "'x'"]),
    ],
)
def test_settings_are_checked_before_anything_is_written(tmp_path: Path, settings: Any, words: list[str]) -> None:
    assert_refused(lambda: Lifelong(tmp_path / "life", **settings), words)
    assert list(tmp_path.iterdir()) == []


def test_booleans_and_whole_numbers_are_not_taken_for_each_other(tmp_path: Path) -> None:
    with make_life(tmp_path / "life") as life:
        task = life.task("i")
        task.observe(X[:2], [0, 1])
        assert_refused(lambda: task.observe(X[:2], [True, False]), ["labels", "True and 0"])
        assert_refused(lambda: life.task("new").observe(X[:2], [True, 2]), ["labels", "True and 2"])
        assert_refused(lambda: task.correct([0], [True]), ["labels", "booleans"])
        other = life.task("b")
        other.observe(X[:2], [True, False])
        for one, labels in ((task, [0, 1]), (other, [True, False])):
            assert [(type(label), label) for label in one.table["label"]] == [(type(label), label) for label in labels]


def test_a_folder_that_was_closed_says_so_everywhere(tmp_path: Path) -> None:
    with make_life(tmp_path / "life") as life:
        life.task("a", classes=["no", "yes"]).observe(X, YES)
        task = Lifelong.task(life, "a")
    for call in (lambda: life.table, lambda: life.save("x"), lambda: life.export(tmp_path / "x"), lambda: task.table):
        assert_refused(call, ["was closed", "open it again"])
