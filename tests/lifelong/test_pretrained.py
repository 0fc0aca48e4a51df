"""With a file that a `Lifelong` exported, the estimators predict what its task predicts from the same labels."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from anyshot import Lifelong, TaskClassifier, TaskRegressor
from anyshot.errors import DataError, InputError
from tests.support.lives import draw_task, make_life

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]
POINTS = np.random.default_rng(9).normal(size=(7, 3)).astype(np.float32)
WAYS = np.array([[1.0, 0.0, -1.0], [0.0, 2.0, 0.5]])


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lifelong]:
    with make_life(tmp_path_factory.mktemp("lives") / "classes") as life:
        for number in range(4):
            life.task(f"before {number}", classes=["yes", "no"]).observe(*draw_task(number))
        life.learn(updates=30)
        yield life


@pytest.fixture
def path(life: Lifelong, tmp_path: Path) -> Path:
    return life.export(tmp_path / "learner.safetensors")


@pytest.mark.parametrize("ends", [range(13), (0, 1, 2, 4, 8, 12)], ids=["one at a time", "at once"])
def test_it_predicts_what_a_task_predicts(life: Lifelong, path: Path, ends: Sequence[int]) -> None:
    x, y = draw_task(9)
    task, classifier = life.task(f"new {len(ends)}", classes=["no", "yes"]), TaskClassifier(path)
    for start, stop in pairwise(ends):
        task.observe(x[start:stop], y[start:stop])
    if isinstance(ends, range):
        for place in range(12):
            classifier.partial_fit(x[place : place + 1], y[place : place + 1], classes=["yes", "no"])
    else:  # each half of the labels is predicted by what was learned from the half before it
        classifier.fit(x, y)
    np.testing.assert_allclose(classifier.predict_proba(POINTS), task.predict_proba(POINTS), atol=1e-9)
    assert classifier.weights_ == pytest.approx(task.weights)
    assert 0.01 < classifier.weights_["learner"] < 0.99
    assert classifier.predict(POINTS).tolist() == task.predict(POINTS).tolist()


def test_new_classes_take_free_outputs_as_in_a_task(life: Lifelong, path: Path) -> None:
    task, classifier = life.task("animals"), TaskClassifier(path)
    labels = ["dog", "no", "cat", "dog", "ant", "no", "eel"]
    for point, label in zip(POINTS, labels, strict=True):
        task.observe(point[None], [label])
        classifier.partial_fit(point[None], [label])
    assert classifier.classes_.tolist() == sorted(set(labels))
    columns = [task.classes.index(name) for name in classifier.classes_]
    np.testing.assert_allclose(
        classifier.predict_proba(POINTS), task.predict_proba(POINTS)[:, columns], rtol=0, atol=1e-9
    )


def test_a_copy_needs_no_file(path: Path) -> None:
    x, y = draw_task(9)
    classifier = TaskClassifier(path, random_state=3).fit(x, y)
    before = classifier.predict_proba(POINTS)
    written = pickle.dumps(classifier)
    path.unlink()
    for other in (copy.deepcopy(classifier), pickle.loads(written)):  # noqa: S301
        np.testing.assert_array_equal(other.predict_proba(POINTS), before)
    other.partial_fit(x, y)
    np.testing.assert_array_equal(classifier.predict_proba(POINTS), before)
    with pytest.raises(InputError, match="no snapshot"):
        clone(classifier).fit(x, y)


def test_pipelines_searches_and_scores(path: Path) -> None:
    x, y = draw_task(9, 30)
    assert cross_val_score(make_pipeline(StandardScaler(), TaskClassifier(path)), x, y, cv=3).min() > 0.6
    search = GridSearchCV(TaskClassifier(), {"pretrained": [None, path]}, cv=3, scoring="neg_log_loss").fit(x, y)
    assert np.ptp(search.cv_results_["mean_test_score"]) > 1e-3
    assert set(search.predict(pd.DataFrame(x).to_numpy())) <= {"no", "yes"}


def test_targets(tmp_path: Path) -> None:
    x, _ = draw_task(0, 30)
    with make_life(tmp_path / "life") as life:
        for number in range(2):
            life.task(f"before {number}").observe(x, x @ (WAYS.T + number))
        life.learn(updates=5)
        path = life.export(tmp_path / "targets.safetensors")
        task, regressor = life.task("new"), TaskRegressor(path)
        for start in range(0, 30, 5):
            for end in range(start, start + 5):
                task.observe(x[end : end + 1], x[end : end + 1] @ WAYS.T)
                regressor.partial_fit(x[end : end + 1], x[end : end + 1] @ WAYS.T)
        np.testing.assert_allclose(regressor.predict(POINTS), task.predict(POINTS), atol=1e-9)
    again = regressor.fit(x, x @ WAYS.T)
    assert again.score(x, x @ WAYS.T) > 0.9
    with pytest.raises(InputError, match=r"1 numbers .* 2"):
        TaskRegressor(path).fit(x, x[:, 0])
    with pytest.raises(InputError, match="learned from classes"):
        TaskClassifier(path).fit(x, x[:, 0] > 0)


def test_frames_are_encoded_as_they_were(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": [20, 30, 40, None, 60, 70], "town": ["a", "b", "a", "b", "a", "c"]})
    labels = ["x", "x", "y", "x", "y", "y"]
    with make_life(tmp_path / "life") as life:
        task = life.task("frames", classes=["x", "y"])
        task.observe(frame, labels)
        path = life.export(tmp_path / "frames.safetensors")
        new = life.task("new", classes=["x", "y"])
        classifier = TaskClassifier(path)
        for place in range(6):
            new.observe(frame[place : place + 1], labels[place : place + 1])
            classifier.partial_fit(frame[place : place + 1], labels[place : place + 1], classes=["x", "y"])
        np.testing.assert_allclose(classifier.predict_proba(frame), new.predict_proba(frame), atol=1e-9)
    assert classifier.feature_names_in_.tolist() == ["age", "town"]
    with pytest.raises(InputError, match="X must be a pandas DataFrame"):
        TaskClassifier(path).fit(np.zeros((2, 2)), ["x", "y"])


def test_images_may_be_flat(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 256, (8, 6, 6, 1)).astype(np.uint8)
    y = np.arange(8) % 2
    with make_life(tmp_path / "life", network={"kind": "conv4", "channels": 2}) as life:
        life.task("before", classes=[0, 1]).observe(x, y)
        path = life.export(tmp_path / "images.safetensors")
    classifier = TaskClassifier(path).fit(x, y)
    assert classifier.n_features_in_ == 36
    np.testing.assert_array_equal(classifier.predict_proba(x), classifier.predict_proba(x.reshape(8, -1) * 1.0))
    for wrong, words in ((x / 255, "0 to 255"), (x[:, :5], r"\(5, 6, 1\).*\(6, 6, 1\)"), (x[..., 0], r"\(6, 6\)")):
        with pytest.raises(InputError, match=words):
            classifier.predict(wrong)


def test_files_that_do_not_fit_are_refused_in_a_sentence(path: Path, tmp_path: Path) -> None:
    x, y = draw_task(9)
    with pytest.raises(InputError, match=r"\(2,\).*learner.safetensors.*\(3,\)"):
        TaskClassifier(path).fit(x[:, :2], y)
    with pytest.raises(InputError, match="learned from targets"):
        TaskRegressor(path).fit(x, x[:, 0])
    whole = path.read_bytes()
    for content in (b"", whole[: len(whole) // 2], whole.replace(b'\\"prior\\"', b'\\"prier\\"'), b"PK" + whole):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"learner.safetensors"):
            TaskClassifier(path).fit(x, y)
    with pytest.raises(InputError, match="there is no snapshot"):
        TaskClassifier(str(tmp_path / "nothing")).fit(x, y)
