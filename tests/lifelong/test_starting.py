"""A folder that begins with what another one has learned knows its classes, experts and inputs, and keeps them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from anyshot.lifelong import Lifelong
from tests.support.lives import TINY, draw_task, make_life
from tests.support.refusals import assert_refused

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]
POINTS = np.random.default_rng(9).normal(size=(7, 3)).astype(np.float32)
FRAME = pd.DataFrame({"town": ["Oslo", "Bari", "Oslo", "Bari"], "age": [1, 2, 3, 4]}).astype({"town": "category"})


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    with make_life(tmp_path / "first") as life:
        for number in range(2):
            life.task(f"{number}", classes=["no", "yes"]).observe(*draw_task(number))
        life.learn(updates=3)
        return life.export(tmp_path / "export.safetensors")


def test_learner_classes_and_prior_are_taken_over_and_stay_after_a_restart(exported: Path, tmp_path: Path) -> None:
    with Lifelong(tmp_path / "first") as first, make_life(tmp_path / "new", start=exported) as new:
        task, theirs = new.task("a", classes=["yes", "no"]), first.task("a", classes=["yes", "no"])
        assert task.weights == theirs.weights != first.task("0")._record.start.mixture.weights.tolist()
        assert task._record.info["slots"] == [1, 0]  # as in the tasks of the first folder
        np.testing.assert_array_equal(task.predict_proba(POINTS), theirs.predict_proba(POINTS))
        task.observe(*draw_task(2, 5))
        found, prior = task.predict_proba(POINTS), new._home.setup.start["prior"]
    exported.unlink()
    with Lifelong(tmp_path / "new") as again:
        np.testing.assert_array_equal(again.task("a").predict_proba(POINTS), found)
        again.forget("a")
        assert list(again.task("b").weights.values()) == pytest.approx(prior)


def test_other_inputs_labels_and_learners_are_refused_at_once(exported: Path, tmp_path: Path) -> None:
    assert_refused(lambda: make_life(tmp_path / "new", start=exported, features=5), ["hyperparameters", "5", "4"])
    assert not (tmp_path / "new").exists()
    with make_life(tmp_path / "new", start=exported) as new:
        task = new.task("a", classes=["no", "yes"])
        for x in (POINTS[:, :2], FRAME):
            assert_refused(lambda x=x: task.predict(x), ["x", "began with"])
            assert_refused(lambda x=x: task.observe(x, ["yes"] * len(x)), ["x", "began with"])
        assert_refused(lambda: task.estimate(POINTS[:, :2]), ["x", "(3,)", "(7, 2)"])
        assert_refused(lambda: new.task("b").observe(POINTS, np.arange(7.0)), ["labels", "floats", "classes"])
        assert new._home.store.counts.examples == 0
        task.observe(POINTS, ["yes", "no"] * 3 + ["no"])
    with make_life(tmp_path / "wide") as wide:
        wide.task("a", classes=["no", "yes"]).observe(POINTS[:, :2], ["yes"] * 7)
    assert_refused(lambda: Lifelong(tmp_path / "wide", start=exported), ["start", "another kind"])


def test_frames_are_encoded_as_they_were(tmp_path: Path) -> None:
    with make_life(tmp_path / "first") as first:
        first.task("a").observe(FRAME, ["no", "yes", "no", "yes"])
        path = first.export(tmp_path / "export.safetensors")
        rows = first._home.encode(FRAME[1:3])
    with Lifelong(tmp_path / "new", start=path, **TINY) as new:
        np.testing.assert_array_equal(new._home.encode(FRAME[1:3]), rows)
        new.task("a").observe(FRAME[1:3], ["no", "yes"])
        np.testing.assert_array_equal(new._home.encode(FRAME[1:3]), rows)
