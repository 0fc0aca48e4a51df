"""The first label decides what inputs and labels are; until then nothing does, and least of all a call that failed."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from anyshot.errors import InputError
from anyshot.lifelong import Lifelong
from anyshot.tasks import FrameEncoder
from tests.support.lives import make_life
from tests.support.refusals import assert_refused

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]
X = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
FRAME = pd.DataFrame({"age": [20, 30, 40], "town": ["Bari", "Oslo", "Bari"]})


@pytest.fixture
def life(tmp_path: Path) -> Any:
    with make_life(tmp_path / "life") as made:
        yield made


@pytest.mark.parametrize(
    "first",
    [
        lambda life: life.task("a", classes=["no", "yes"]).observe(X[:3, :2], ["yes"]),
        lambda life: life.task("a", classes=["no", "yes"]).observe(X[:1, :2], ["zz"]),
        lambda life: life.task("a", classes=["no", "yes"]).observe(X[:1, :2], ["no"], random=np.ones(2, bool)),
        lambda life: life.task("a", classes=["no", "yes"]).observe(X[:1, :2], [None]),
        lambda life: life.task("a", classes=["no", "yes"]).predict(X[:2, :2]),
        lambda life: life.task("a", classes=["no", "yes"]).predict(np.zeros((0, 2))),
        lambda life: life.task("a", classes=["no", "yes"]).predict(np.zeros((1, 0))),
        lambda life: life.task("a", classes=["no", "yes"]).predict(FRAME),
        lambda life: life.task("a", classes=["no", "yes"]).predict((X[:1] * 9).astype(np.uint8)),
        lambda life: life.task("a").predict(X[:2, :2]),
        lambda life: life.task("a").observe(X[:3, :2], [0.0]),
        lambda life: (life.task("a", classes=["no", "yes"]).predict(X[:2, :2]), life.learn(updates=1)),
    ],
)
def test_before_the_first_label_nothing_is_decided(life: Lifelong, tmp_path: Path, first: Any) -> None:
    with contextlib.suppress(InputError):
        first(life)
    task = life.task("then", classes=["no", "yes"])
    assert task.predict_proba(X).shape == (6, 2)
    task.observe(X, ["no", "yes"] * 3)
    assert_refused(lambda: task.predict(X[:, :2]), ["x", "(3,)"])
    assert life.learn(updates=1) == 1
    life.close()
    with Lifelong(tmp_path / "life") as again:
        assert again.task("then").predict(X).shape == (6,)


def test_a_large_frame_decides_how_frames_are_encoded_until_one_does_not_fit(life: Lifelong) -> None:
    task = life.task("a", classes=["no", "yes"])
    task.predict(FRAME)
    task.observe(FRAME[:1], ["no"])
    assert life._home.setup.inputs.encoder.column_names == ["age", "town=Bari", "town=Oslo"]
    assert_refused(lambda: task.predict(X), ["x must be a DataFrame", "array"])
    assert_refused(lambda: task.predict(pd.DataFrame({0: [1], "age": [2]})), ["x has no column 'town'", "it has 0, "])


def test_a_frame_with_other_columns_decides_anew_before_the_first_label(life: Lifelong) -> None:
    task = life.task("a", classes=["no", "yes"])
    task.predict(FRAME)
    task.observe(FRAME[["town"]], ["no", "yes", "no"])
    assert life._home.setup.inputs.encoder.column_names == ["town=Bari", "town=Oslo"]


def test_an_encoder_that_was_given_stays(tmp_path: Path) -> None:
    encoder = FrameEncoder.fit(FRAME)
    with make_life(tmp_path / "life", encoder=encoder) as life:
        task = life.task("a", classes=["no", "yes"])
        assert_refused(lambda: task.predict(X), ["x must be a DataFrame"])
        assert_refused(lambda: task.predict(FRAME[["town"]]), ["'age'"])
        task.observe(FRAME, ["no", "yes", "no"])
    with Lifelong(tmp_path / "life", encoder=encoder) as again:
        assert again.task("a").predict(FRAME).shape == (3,)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [([0.0, 1.0], [0, 1]), ([0, 1], [0.5, 1.5]), ([0.5, 1.5], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])],
    ids=["targets to classes", "classes to targets", "more numbers"],
)
def test_without_any_label_left_the_next_ones_decide_their_kind(life: Lifelong, wrong: Any, right: Any) -> None:
    task = life.task("a")
    ids = task.observe(X[:2], wrong)
    life.learn(updates=1)
    assert_refused(lambda: life.task("b").observe(X[:2], right), ["labels"])
    task.delete(ids)
    assert task.table.empty
    task.observe(X[:2], right)
    assert life.learn(updates=1) == 1
    assert task.predict(X).shape == (6, *np.shape(right)[1:])
    folder = life._home.store.folder
    life.close()
    with Lifelong(folder) as again:
        assert np.ravel(again.task("a").table["label"].tolist()).tolist() == np.ravel(right).tolist()


def test_a_task_begins_with_its_classes_or_not_at_all(life: Lifelong, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life._home.store, "change_task", lambda *_, **__: pytest.fail("a second write"))
    assert life.task("a", classes=["no", "yes"]).classes == ["no", "yes"]


def test_a_correction_that_is_refused_adds_no_class(life: Lifelong) -> None:
    task = life.task("a")
    task.observe(X[:2], ["no", "yes"])
    assert_refused(lambda: task.correct([0, 0], ["maybe", "maybe"]), ["ids", "more than once"])
    assert task.classes == ["no", "yes"]


def test_classes_of_a_task_without_labels_are_not_taken_away(life: Lifelong) -> None:
    life.task("a", classes=["no", "yes"])
    assert_refused(lambda: life.task("b").observe(X[:2], [0.5, 1.5]), ["labels", "floats", "classes"])
