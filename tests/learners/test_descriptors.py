"""Parts of inputs against plain loops and scikit-learn; how much each counts, and that it helps where it should."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

from anyshot import Shots
from anyshot.learners import descriptors, scratch_kernel
from anyshot.learners.colour_histograms import BINS, describe_colours
from anyshot.learners.descriptors import Part, describe, join, weigh
from anyshot.learners.oriented_gradients import DIRECTIONS
from tests.support.learners import CLASS, build

pytestmark = pytest.mark.usefixtures("quick_compilation")
SIZE, CLASSES = 14, 3
weigh_compiled = jax.jit(weigh)


def test_what_is_an_image() -> None:
    edges, colours = DIRECTIONS * 6 * 8, 3 * BINS
    for shape, parts in (
        ((6, 8), [edges]),  # grey
        ((6, 8, 1), [edges]),
        ((6, 8, 3), [edges, colours]),
        ((6, 8, 4), [edges]),  # what the fourth is, nobody knows
        ((2, 6, 8, 3), [edges, colours, edges, colours]),  # a pair of images
        ((6, 8, 9), [DIRECTIONS * 8 * 9] * 6),  # six images of eight by nine pixels
        ((4, 8), [32]),  # too small
        ((7,), [7]),
        ((), [1]),
    ):
        assert [part.rows.shape for part in describe(jnp.ones((2, *shape)))] == [(2, part) for part in parts], shape
    mixed = describe({"a": jnp.ones((2, 6, 8)), "b": jnp.ones((2, 3))})
    assert [(part.rows.shape[1], part.of_image) for part in mixed] == [(edges, True), (3, False)]
    np.testing.assert_array_equal(describe(jnp.arange(6.0).reshape(2, 3))[0].rows, np.arange(6.0).reshape(2, 3))
    assert np.all(np.asarray(describe(jnp.full((2, 6, 8), 5, jnp.uint8))[0].rows) == 0)  # no edges


def test_each_image_of_a_pair_has_its_own_parts() -> None:
    pairs = np.random.default_rng(0).integers(0, 256, (4, 2, 6, 8, 3)).astype(np.uint8)
    together = describe(jnp.asarray(pairs))
    apart = [part for image in (0, 1) for part in describe(jnp.asarray(pairs[:, image]))]
    for one, other in zip(together, apart, strict=True):
        np.testing.assert_allclose(one.rows, other.rows, atol=1e-6)


def plain_colours(image: np.ndarray) -> np.ndarray:
    """Square roots of the shares of pixels in each bin of three histograms, divided by √3."""
    counts = np.zeros((3, BINS))
    pixels = image.reshape(-1, 3)
    for red, green, blue in pixels:
        for row, number in enumerate(((red + green + blue) / 3, red - green + 0.5, blue - (red + green) / 2 + 0.5)):
            place = min(max(number, 0), 1) * (BINS - 1)
            low = min(int(place), BINS - 2)
            counts[row, low] += low + 1 - place
            counts[row, low + 1] += place - low
    return np.sqrt(counts / len(pixels) / 3).reshape(-1)


def test_histograms_are_those_of_a_loop_over_pixels() -> None:
    images = np.random.default_rng(0).uniform(-0.2, 1.2, size=(2, 7, 5, 3))
    found = describe_colours(jnp.asarray(images))
    np.testing.assert_allclose(found, [plain_colours(image) for image in images], atol=1e-12)
    np.testing.assert_allclose(np.sum(np.asarray(found) ** 2, axis=1), 1)


@given(
    count=st.integers(0, SIZE),
    seed=st.integers(0, 10_000),
    regression=st.booleans(),
    scale=st.sampled_from((1e-4, 1e4)),
)
def test_weights_are_those_of_linear_regressions_on_the_labels(
    count: int, seed: int, regression: bool, scale: float
) -> None:
    draw = np.random.default_rng(seed)
    labels = draw.normal(size=(SIZE, 2)) if regression else np.eye(CLASSES)[draw.integers(0, CLASSES, SIZE)]
    noise = draw.normal(size=(SIZE, 4))
    # The mean of equal numbers such as 0.1 may be rounded to another number.
    same = np.full((SIZE, 3), draw.choice([1, 0.1, 1e6 / 3]))
    parts = [noise, noise[:, :2] + labels @ draw.normal(size=(labels.shape[1], 2)), same, scale * noise]
    if regression:
        labels[:, 0] *= scale  # the unit of a target
    present = np.arange(SIZE) < count
    k = 2 if regression else len(np.unique(labels[:count].argmax(axis=1))) - 1
    weights, squares = np.full(4, 1 / max(count, 1)), np.ones(4)
    for number, part in enumerate(parts):
        x, targets = part[:count], labels[:count]
        if count - k > 1 and np.ptp(x) > 0:
            residual = x - LinearRegression().fit(targets, x).predict(targets)
            share = np.sum(residual**2) / np.sum((x - x.mean(axis=0)) ** 2)
            weights[number] += max(0, 1 - share * (count - 1) / (count - k - 1))
        if number >= 2 and count > 1 and np.ptp(x) > 0:  # not of an image
            squares[number] = np.mean([np.sum((a - b) ** 2) for i, a in enumerate(x) for b in x[:i]])
    padded = [
        Part(jnp.asarray(np.where(present[:, None], part, np.nan)), of_image=number < 2)
        for number, part in enumerate(parts)
    ]
    found = weigh_compiled(padded, jnp.asarray(np.where(present[:, None], labels, 7.0)), k, jnp.asarray(present))
    np.testing.assert_allclose(np.asarray(found) ** 2 * squares, weights / weights.sum(), atol=1e-4)


def test_a_lone_part_counts_as_it_is() -> None:
    x = jnp.asarray(np.random.default_rng(0).normal(size=(5, 3)))
    scales = weigh([Part(x)], jnp.eye(5), 4, jnp.full(5, True))
    np.testing.assert_array_equal(join([Part(x)], scales), x)


@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_units_of_parts_and_targets_do_not_matter(unit: float) -> None:
    draw = np.random.default_rng(0)
    y, noise = draw.normal(size=(9, 2)).astype(np.float32), draw.normal(size=(9, 2)).astype(np.float32)
    here = jnp.full(9, True)

    def rows(factor: float, y: np.ndarray) -> np.ndarray:
        parts = [Part(jnp.asarray(y[:, :1] + noise)), Part(jnp.asarray(noise * np.float32(factor)))]
        return np.asarray(join(parts, weigh_compiled(parts, jnp.asarray(y), 2, here)))

    np.testing.assert_allclose(rows(unit, y), rows(1, y), atol=1e-5)
    scaled = y * np.array([1, unit], np.float32)
    parts = [Part(jnp.asarray(noise + y[:, :1])), Part(jnp.asarray(noise))]
    usual, found = (weigh_compiled(parts, jnp.asarray(of), 2, here) for of in (y, scaled))
    np.testing.assert_allclose(found, usual, atol=1e-5)


def test_images_in_blocks_are_described_as_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    images = jnp.asarray(np.random.default_rng(0).integers(0, 256, (7, 2, 6, 8, 3)).astype(np.uint8))
    at_once = describe(images)
    monkeypatch.setattr(descriptors, "MOST_NUMBERS", 4 * DIRECTIONS * 6 * 8 * 3)  # four images
    for one, other in zip(describe(images), at_once, strict=True):
        np.testing.assert_allclose(one.rows, other.rows, atol=1e-6)
    assert [part.rows.shape[0] for part in describe(images[:0])] == [0] * 4


def test_many_images_of_photographs_need_little_memory() -> None:
    photographs = jax.ShapeDtypeStruct((2048, 224, 224, 3), np.uint8)
    program = jax.jit(lambda x: [part.rows for part in describe(x)]).lower(photographs).compile()
    assert program.memory_analysis().temp_size_in_bytes < 1e9


@pytest.mark.medium
def test_parts_that_say_nothing_hardly_disturb_and_would_if_all_counted_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    n = 300
    said = draw.normal(size=(n, 2)).astype(np.float32)
    y = (said[:, 0] + 0.3 * np.sin(3 * said[:, 1]) > 0).astype(np.int32)
    # Eight others, in a unit that would drown what matters.
    others = {f"other {number}": 100 * draw.normal(size=(n, 2)).astype(np.float32) for number in range(8)}

    def accuracy(x: Any) -> float:
        example = (jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), x), CLASS)
        learner = build("scratch-kernel", outputs=2, example=example)
        shots = Shots.of(jax.tree.map(lambda leaf: leaf[:100], x), y[:100])
        found = learner.predict((), shots, jax.tree.map(lambda leaf: jnp.asarray(leaf[100:]), x))
        return float(np.mean(np.argmax(np.asarray(found), axis=1) == y[100:]))

    alone, with_others = accuracy({"said": said}), accuracy({"said": said, **others})
    assert with_others > alone - 0.06
    monkeypatch.setattr(scratch_kernel, "weigh", lambda parts, *_: jnp.ones(len(parts)))
    assert accuracy({"said": said, **others}) < with_others - 0.1
