"""The estimators are such as scikit-learn wants them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from anyshot import TaskClassifier, TaskRegressor
from anyshot.errors import InputError
from tests.support.lives import draw_task

POINTS = np.random.default_rng(9).normal(size=(7, 3)).astype(np.float32)
WAYS = np.array([[1.0, 0.0, -1.0], [0.0, 2.0, 0.5]])


@parametrize_with_checks([TaskClassifier(), TaskRegressor()])
def test_scikit_learn_finds_nothing_to_complain_about(estimator: Any, check: Any) -> None:
    check(estimator)


def test_without_a_file_it_is_the_linear_model() -> None:
    x, y = draw_task(0, 30)
    classifier = TaskClassifier().fit(x, y)
    expected = LogisticRegression().fit(x.astype(np.float64), y).predict_proba(POINTS.astype(np.float64))
    np.testing.assert_allclose(classifier.predict_proba(POINTS), expected, atol=1e-12)
    assert classifier.weights_ == {"scratch": 1.0}
    regressor, targets = TaskRegressor(), x @ WAYS.T
    for start in range(0, 30, 10):
        regressor.partial_fit(x[start : start + 10], targets[start : start + 10])
    np.testing.assert_allclose(regressor.predict(POINTS), Ridge().fit(x, targets).predict(POINTS), atol=1e-5)


def test_frames_of_numbers_are_arrays_and_other_frames_are_encoded() -> None:
    x, y = draw_task(0, 30)
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    of_frame = TaskClassifier().fit(frame, y)
    np.testing.assert_allclose(of_frame.predict_proba(frame), TaskClassifier().fit(x, y).predict_proba(x), atol=1e-12)
    assert of_frame.feature_names_in_.tolist() == ["a", "b", "c"]
    town = frame[["a"]].assign(town=np.where(y == "yes", "Bari", "Oslo"))
    town.loc[3, "a"] = np.nan
    classifier = TaskClassifier().fit(town, y)
    assert (classifier.score(town, y), classifier.n_features_in_) == (1.0, 2)
    regressor = TaskRegressor().fit(town, (y == "yes") * 1.0)
    assert regressor.score(town, (y == "yes") * 1.0) > 0.9
    with pytest.raises(ValueError, match="feature names"):
        classifier.predict(town[["town"]])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x, y: TaskClassifier(pretrained=3).fit(x, y), ["pretrained", "path", "3"]),
        (lambda x, y: TaskClassifier(random_state=-1).fit(x, y), ["random_state", "-1"]),
        (lambda x, y: TaskClassifier().fit(x, ["yes"] * len(x)), ["one class", "'yes'", "partial_fit"]),
        (lambda x, y: TaskClassifier().partial_fit(x, y, ["yes"]), ["one class", "'yes'"]),
        (lambda x, y: TaskClassifier().partial_fit(x, y, ["yes", "maybe"]), ["'no'", "'maybe'"]),
        (lambda x, y: TaskClassifier().fit(x, y).partial_fit(x, y, ["yes", "maybe"]), ["classes", "'maybe'", "'no'"]),
        (lambda x, y: TaskClassifier().partial_fit(x, y).partial_fit(x[:1], [3]), ["3", "'no'"]),
        (lambda x, y: TaskClassifier().fit(x, [*y[:-1], None]), ["y", "no label", "11"]),
        (lambda x, y: TaskRegressor().fit(x, x).partial_fit(x, x[:, 0]), ["y", "3 numbers", "1"]),
    ],
)
def test_what_cannot_be_right_is_refused_in_a_sentence(call: Any, words: list[str]) -> None:
    with pytest.raises(InputError) as refusal:
        call(*draw_task(0))
    assert [word for word in words if word not in str(refusal.value)] == []


def test_missing_numbers_and_predictions_before_fit_have_scikit_learns_sentences() -> None:
    x, _ = draw_task(0)
    for estimator in (TaskClassifier(), TaskRegressor()):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            estimator.predict(x)
        with pytest.raises(ValueError, match="X contains NaN"):
            estimator.fit(np.full((2, 3), np.nan), [0, 1])
    with pytest.raises(ValueError, match="y contains NaN"):
        TaskRegressor().fit(x, np.full(len(x), np.nan))
