"""Pose prediction: the orientation of 65 objects, each seen by its own camera."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from jaxtyping import Float

from anyshot.errors import InputError
from anyshot.limits import check_whole
from anyshot.tasks.built import Built
from anyshot.tasks.meshes import OBJECTS, read_meshes
from anyshot.tasks.progress import progress
from anyshot.tasks.render import render_all

MAX_IMAGES = 10_000  # of one object
MAX_BYTES = 4 * 10**9  # of all images, one byte a pixel
TARGETS: dict[str, Callable[[Float[np.ndarray, "n 1"]], Float[np.ndarray, "n targets"]]] = {  # of angle / 2 pi
    "turns": lambda turns: turns,
    "10-turns": lambda turns: 10 * turns,
    "sin-cos": lambda turns: np.concatenate([np.sin(2 * np.pi * turns), np.cos(2 * np.pi * turns)], axis=1),
}


def check_pose(train_rows: int, test_rows: int, size: int, target: str) -> None:
    """Raise `InputError` for settings that are out of range."""
    check_whole("train_rows", train_rows, 1, MAX_IMAGES)
    check_whole("test_rows", test_rows, 0, MAX_IMAGES)
    check_whole("size", size, 8, 512)
    if target not in TARGETS:
        raise InputError(f"target must be one of {', '.join(TARGETS)}, got {target!r}")
    if OBJECTS * (train_rows + test_rows) * size**2 > MAX_BYTES:
        raise InputError(
            f"(train_rows + test_rows) x size x size must be at most {MAX_BYTES // OBJECTS:,}, "
            f"got ({train_rows} + {test_rows}) x {size} x {size}"
        )


def pose(
    files: dict[str, Path],
    seed: int,
    *,
    train_rows: int = 100,
    test_rows: int = 50,
    size: int = 128,
    target: str = "turns",
) -> Built:
    """Render `train_rows` + `test_rows` grey images of every object at random angles, which are the targets.

    The paper renders 100 images of an object, uses up to 96 of them as labels, and does not say what it tests on. We
    render 50 more for testing.

    Args:
        files: the meshes.
        seed: of the cameras and angles.
        train_rows: images of each object to train on.
        test_rows: images of each object to test on.
        size: pixels a side.
        target: what is predicted: "turns" is angle / 2 pi; "10-turns" is ten times that, as in Yin et al.; "sin-cos" is
            sine and cosine of the angle, in which a full turn is where it began.
    """
    check_pose(train_rows, test_rows, size, target)
    (archive,) = files.values()
    meshes = read_meshes(archive)
    images = train_rows + test_rows
    with progress(f"rendering {len(meshes)} objects, {images} images each", len(meshes)) as update:
        x, y = render_all(meshes, images, seed, size, update)
    rows = np.arange(len(meshes) * images, dtype=np.int32).reshape(len(meshes), images)
    arrays = {"x": x.reshape(-1, size, size), "y": TARGETS[target](y.reshape(-1, 1)).astype(np.float32)}
    arrays |= {"train_rows": rows[:, :train_rows], "test_rows": rows[:, train_rows:]}
    return Built(arrays, tuple(mesh.name for mesh in meshes))
