"""Parts of inputs against plain loops and scikit-learn; how much each counts, and that it helps where it should."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

from anyshot import Shots
from anyshot.learners.colour_histograms import BINS, describe_colours
from anyshot.learners.descriptors import describe, join, weigh
from anyshot.learners.oriented_gradients import DIRECTIONS
from tests.support.learners import build

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
        assert [part.shape for part in describe(jnp.ones((2, *shape)))] == [(2, part) for part in parts], shape
    assert [part.shape[1] for part in describe({"a": jnp.ones((2, 6, 8)), "b": jnp.ones((2, 3))})] == [edges, 3]
    np.testing.assert_array_equal(describe(jnp.arange(6.0).reshape(2, 3))[0], np.arange(6.0).reshape(2, 3))
    assert np.all(np.asarray(describe(jnp.full((2, 6, 8), 5, jnp.uint8))[0]) == 0)  # no edges


def test_each_image_of_a_pair_has_its_own_parts() -> None:
    pairs = np.random.default_rng(0).integers(0, 256, (4, 2, 6, 8, 3)).astype(np.uint8)
    together = describe(jnp.asarray(pairs))
    apart = [part for image in (0, 1) for part in describe(jnp.asarray(pairs[:, image]))]
    for one, other in zip(together, apart, strict=True):
        np.testing.assert_array_equal(one, other)


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
    scale=st.sampled_from((1e-3, 1e3)),
)
def test_weights_are_those_of_linear_regressions_on_the_labels(
    count: int, seed: int, regression: bool, scale: float
) -> None:
    draw = np.random.default_rng(seed)
    labels = draw.normal(size=(SIZE, 2)) * scale if regression else np.eye(CLASSES)[draw.integers(0, CLASSES, SIZE)]
    noise = draw.normal(size=(SIZE, 4))
    parts = [noise, noise[:, :2] + labels @ draw.normal(size=(labels.shape[1], 2)), np.ones((SIZE, 3))]
    present = np.arange(SIZE) < count
    k = 2 if regression else len(np.unique(labels[:count].argmax(axis=1))) - 1
    expected = np.full(3, 1 / max(count, 1))
    for number, part in enumerate(parts):
        x, targets = part[:count], labels[:count]
        if count - k > 1 and np.ptp(x) > 0:
            residual = x - LinearRegression().fit(targets, x).predict(targets)
            share = np.sum(residual**2) / np.sum((x - x.mean(axis=0)) ** 2)
            expected[number] += max(0, 1 - share * (count - 1) / (count - k - 1))
    padded = [jnp.asarray(np.where(present[:, None], part, np.nan)) for part in parts]
    found = weigh_compiled(padded, jnp.asarray(np.where(present[:, None], labels, 7.0)), k, jnp.asarray(present))
    np.testing.assert_allclose(found, expected / expected.sum(), atol=1e-4)


def test_a_lone_part_counts_as_it_is() -> None:
    x = jnp.asarray(np.random.default_rng(0).normal(size=(5, 3)))
    weights = weigh([x], jnp.eye(5), 4, jnp.full(5, True))
    np.testing.assert_array_equal(join([x], weights), x)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_tiny_and_huge_numbers_are_like_others(scale: float) -> None:
    draw = np.random.default_rng(0)
    y, noise = draw.normal(size=(9, 1)).astype(np.float32), draw.normal(size=(9, 2)).astype(np.float32)
    parts = [jnp.asarray(y + noise), jnp.asarray(noise)]
    usual = weigh_compiled(parts, jnp.asarray(y), 1, jnp.full(9, True))
    scaled = [part * np.float32(scale) for part in parts]
    np.testing.assert_allclose(weigh_compiled(scaled, jnp.asarray(y), 1, jnp.full(9, True)), usual, atol=1e-5)
    np.testing.assert_allclose(weigh_compiled(parts, jnp.asarray(y * scale), 1, jnp.full(9, True)), usual, atol=1e-5)


@pytest.mark.medium
def test_an_image_that_says_nothing_hardly_disturbs() -> None:
    """Of a pair, one image decides the class and the other is random: about as good as without the other."""
    draw = np.random.default_rng(0)
    n, side = 200, 8
    y = draw.integers(0, 2, n)
    said = draw.uniform(size=(n, side, side, 3)).astype(np.float32)
    said[..., 0] += 0.1 * y[:, None, None]  # a little redder
    noise = draw.uniform(size=(n, side, side, 3)).astype(np.float32) ** draw.uniform(0.3, 3, size=(n, 1, 1, 3))
    pairs = np.stack([noise.astype(np.float32), said], axis=1)

    def accuracy(x: np.ndarray) -> float:
        example = (jax.ShapeDtypeStruct(x.shape[1:], np.float32), jax.ShapeDtypeStruct((), np.int32))
        learner = build("scratch-kernel", outputs=2, example=example)
        found = learner.predict((), Shots.of(x[:100], y[:100].astype(np.int32)), jnp.asarray(x[100:]))
        return float(np.mean(np.argmax(np.asarray(found), axis=1) == y[100:]))

    alone, with_noise = accuracy(said), accuracy(pairs)
    assert alone > 0.85
    assert with_noise > alone - 0.05
