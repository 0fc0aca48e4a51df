"""The linear models of a task have scikit-learn's minimum, also where there are more inputs than labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from anyshot.lifelong.from_scratch import fit_classes
from anyshot.lifelong.on_features import STRENGTH, fit_on_features
from tests.support.logistic import fit_reference

CLASSES = 3


def objective(model: Any, x: np.ndarray, y: np.ndarray, strength: float) -> float:
    p = model.predict_proba(x)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    return float(-np.log(p).sum() + (model.coef_**2).sum() / (2 * strength))


@pytest.mark.medium
@given(
    count=st.integers(2, 12),
    width=st.sampled_from((3, 40)),
    strength=st.sampled_from((1.0, 10.0)),
    seed=st.integers(0, 1000),
    copies=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_logistic_regression_has_the_minimum_of_scikit_learn(
    count: int, width: int, strength: float, seed: int, copies: bool
) -> None:
    draw = np.random.default_rng(seed)
    x, y = draw.normal(size=(count, width)) + 2, draw.integers(0, CLASSES, count)
    if copies:
        x[-1] = x[0]
    model = fit_classes(x, y, CLASSES, strength).model
    if len(np.unique(y)) < 2:
        assert model is None
        return
    best = fit_reference(x, y, strength)
    assert model.coef_.shape == best.coef_.shape
    lowest = objective(best, x, y, strength)
    assert objective(model, x, y, strength) <= lowest + 0.01 * max(1.0, lowest)


def test_inputs_that_are_all_zero_say_nothing() -> None:
    x, y = np.zeros((4, 9)), np.array([0, 1, 1, 1])
    found = fit_classes(x, y, 2).predict(np.ones((1, 9)))
    np.testing.assert_allclose(found, [[0.25, 0.75]], atol=0.01)


def test_inputs_and_features_count_alike() -> None:
    draw = np.random.default_rng(0)
    x, features = draw.integers(0, 256, (20, 5)).astype(np.uint8), 1e-3 * draw.normal(size=(20, 4))
    y = 1000 * features[:, :1] + x[:, :1] / 255
    found = fit_on_features(x, features, y, 1, classification=False)
    pixels = x / 255
    scale = np.linalg.norm(pixels) / np.linalg.norm(features)
    expected = Ridge(alpha=1 / STRENGTH).fit(np.hstack([pixels, scale * features]), y)
    np.testing.assert_allclose(
        found.predict(x, features)[:, 0], expected.predict(np.hstack([pixels, scale * features])).reshape(-1), rtol=1e-6
    )
    assert found.scale == pytest.approx(scale)


def test_without_labels_there_is_still_an_answer() -> None:
    nothing = np.zeros((0, 2))
    found = fit_on_features(nothing, nothing, np.zeros(0), 4, classification=True)
    np.testing.assert_allclose(found.predict(np.ones((1, 2)), np.ones((1, 2))), 0.25)
