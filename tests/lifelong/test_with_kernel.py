"""The kernel among the experts of a task is that of scikit-learn, however many labels it is padded to."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from anyshot import load_tasks
from anyshot.lifelong import from_scratch, with_kernel
from tests.support.gaussian_kernels import predict_classes, predict_targets

CLASSES = 3


def draw_labels(count: int, width: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, numbers that say something about classes, and other inputs."""
    draw = np.random.default_rng(count)
    x, query = draw.normal(size=(count, width)) + 3, draw.normal(size=(5, width)) + 3
    return x, np.argmax(x[:, :CLASSES] + draw.normal(size=(count, CLASSES)), axis=1), query


@pytest.mark.parametrize("count", [0, 1, 2, 9, 31, 32, 33])
def test_classes_have_the_probabilities_of_scikit_learn(count: int) -> None:
    x, labels, query = draw_labels(count)
    found = with_kernel.fit_classes(x, labels, CLASSES + 1).predict(query)  # the last class never has a label
    np.testing.assert_allclose(found, predict_classes(x, labels, query, CLASSES + 1), atol=1e-6)


@pytest.mark.parametrize("count", [0, 1, 9, 33])
def test_targets_are_those_of_scikit_learn(count: int) -> None:
    x, labels, query = draw_labels(count)
    y = np.stack([labels, 5 - x[:, 0]], axis=1).reshape(count, 2)
    found = with_kernel.fit_targets(x, y, 2).predict(query)
    np.testing.assert_allclose(found, predict_targets(x, y, query), atol=1e-5)


@pytest.mark.medium
def test_of_very_many_labels_the_last_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(with_kernel, "MOST_SHOTS", 40)
    x, labels, query = draw_labels(50)
    labels = np.where(np.arange(50) < 10, 2, labels % 2)  # one class has older labels only
    found = with_kernel.fit_classes(x, labels, CLASSES)
    alone = with_kernel.fit_classes(x[10:], labels[10:], CLASSES)
    assert found.count == alone.count == 40
    assert found.model is not None
    assert alone.model is not None
    np.testing.assert_allclose(found.model(jnp.asarray(query)), alone.model(jnp.asarray(query)), atol=1e-9)
    # That class keeps its share of all labels, and the others are to each other as in a fit without it.
    odds = [kind.predict(query)[:, 0] / kind.predict(query)[:, 1] for kind in (found, alone)]
    np.testing.assert_allclose(*odds, rtol=1e-6)
    np.testing.assert_allclose(found.predict(query)[:, 2], 11 / 53)
    of_one_class = np.minimum(np.arange(50) // 10, 1)  # the last 40
    sorted_by_class = with_kernel.fit_classes(x, of_one_class, CLASSES)
    np.testing.assert_allclose(sorted_by_class.predict(query), np.tile([11 / 53, 41 / 53, 1 / 53], (5, 1)))


@pytest.mark.medium
def test_images_are_compared_by_their_edges() -> None:
    """With 60 labels of real digits it is right more often than a linear model on pixels."""
    digits, right = load_tasks("rainbow-digits"), []
    x, y = np.asarray(digits.x), np.asarray(digits.y)
    for task in range(0, 56, 7):
        rows, test = np.asarray(digits.train_rows[task])[:60], np.asarray(digits.test_rows[task])
        kinds = (with_kernel.fit_classes(x[rows], y[rows], 10), from_scratch.fit_classes(x[rows], y[rows], 10))
        right.append([np.mean(kind.predict(x[test]).argmax(axis=1) == y[test]) for kind in kinds])
    kernel, linear = np.mean(right, axis=0)
    assert kernel > linear + 0.02
