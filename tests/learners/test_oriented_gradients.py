"""Descriptors of images against the formula, written as loops over pixels; and what they do not depend on."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from anyshot import load_tasks
from anyshot.learners.oriented_gradients import DIRECTIONS, MOST_CELLS, describe_edges

pytestmark = pytest.mark.usefixtures("quick_compilation")


def plain(image: np.ndarray) -> np.ndarray:
    """√(Σ_u G(u - c) max(0, g(u) · e_k)²) for each cell c and direction k, divided by its length."""
    height, width, colours = image.shape
    cells = [min(MOST_CELLS, side) for side in (height, width)]
    found = np.zeros((*cells, DIRECTIONS))
    for i in range(height):
        for j in range(width):
            for colour in range(colours):
                down = image[min(i + 1, height - 1), j, colour] - image[max(i - 1, 0), j, colour]
                right = image[i, min(j + 1, width - 1), colour] - image[i, max(j - 1, 0), colour]
                for k in range(DIRECTIONS):
                    angle = 2 * np.pi * k / DIRECTIONS
                    energy = max(0.0, down * np.sin(angle) + right * np.cos(angle)) ** 2
                    for a in range(cells[0]):
                        for b in range(cells[1]):
                            up, left = height / cells[0], width / cells[1]
                            far = (((a + 0.5) * up - 0.5 - i) / up) ** 2 + (((b + 0.5) * left - 0.5 - j) / left) ** 2
                            found[a, b, k] += np.exp(-far / 2) * energy
    root = np.sqrt(found).reshape(-1)
    return root / np.linalg.norm(root)


@pytest.mark.parametrize("shape", [(6, 5, 3), (17, 15, 1)])
def test_descriptors_are_those_of_a_loop_over_pixels(shape: tuple[int, int, int]) -> None:
    images = np.random.default_rng(0).uniform(size=(2, *shape)).astype(np.float32)
    found = describe_edges(jnp.asarray(images))
    np.testing.assert_allclose(found, [plain(image.astype(float)) for image in images], atol=1e-6)


@pytest.mark.parametrize("unit", [1e-30, 1e-9, 1e20, 1e37])
def test_the_unit_does_not_matter(unit: float) -> None:
    images = np.random.default_rng(0).uniform(size=(3, 6, 5, 1)).astype(np.float32)
    images[2] = 0.1  # without edges
    found = describe_edges(jnp.asarray(images * np.float32(unit)))
    np.testing.assert_allclose(found, describe_edges(jnp.asarray(images)), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [1, 1, 0], atol=1e-6)


def test_brightness_and_contrast_do_not_matter_and_a_small_shift_little() -> None:
    digits = np.asarray(load_tasks("rainbow-digits").x[:20]).astype(np.float32) / 255
    whole, grey = describe_edges(jnp.asarray(digits)), describe_edges(jnp.asarray(0.2 + 0.5 * digits))
    np.testing.assert_allclose(whole, grey, atol=1e-4)
    moved = describe_edges(jnp.asarray(np.roll(digits, 1, axis=2)))
    same, others = np.sum(np.asarray(whole) * np.asarray(moved), axis=1), np.asarray(whole) @ np.asarray(whole).T
    pixels = digits.reshape(20, -1)
    pixels = pixels - pixels.mean(axis=1, keepdims=True)
    pixels /= np.linalg.norm(pixels, axis=1, keepdims=True)
    shifted = np.roll(digits, 1, axis=2).reshape(20, -1)
    shifted = shifted - shifted.mean(axis=1, keepdims=True)
    shifted /= np.linalg.norm(shifted, axis=1, keepdims=True)
    assert same.mean() > others[~np.eye(20, dtype=bool)].mean()
    assert 1 - same.mean() < (1 - np.sum(pixels * shifted, axis=1).mean()) / 2
