"""Pose prediction: the orientation of 65 objects, each seen by its own camera."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from anyshot.errors import InputError
from anyshot.limits import check_whole
from anyshot.tasks.built import Built
from anyshot.tasks.meshes import OBJECTS, read_meshes
from anyshot.tasks.progress import progress
from anyshot.tasks.render import render_all

MAX_IMAGES = 10_000  # of one object
MAX_BYTES = 4 * 10**9  # of all images, one byte a pixel


def check_pose(train_rows: int, test_rows: int, size: int) -> None:
    """Raise `InputError` for settings that are out of range."""
    check_whole("train_rows", train_rows, 1, MAX_IMAGES)
    check_whole("test_rows", test_rows, 0, MAX_IMAGES)
    check_whole("size", size, 8, 512)
    if OBJECTS * (train_rows + test_rows) * size**2 > MAX_BYTES:
        raise InputError(
            f"(train_rows + test_rows) x size x size must be at most {MAX_BYTES // OBJECTS:,}, "
            f"got ({train_rows} + {test_rows}) x {size} x {size}"
        )


def pose(files: dict[str, Path], seed: int, *, train_rows: int = 100, test_rows: int = 50, size: int = 128) -> Built:
    """Render `train_rows` + `test_rows` grey images of every object at random angles; the target is angle / 2 pi.

    The paper renders 100 images of an object, uses up to 96 of them as labels, and does not say what it tests on. We
    render 50 more for testing.

    Args:
        files: the meshes.
        seed: of the cameras and angles.
        train_rows: images of each object to train on.
        test_rows: images of each object to test on.
        size: pixels a side.
    """
    check_pose(train_rows, test_rows, size)
    (archive,) = files.values()
    meshes = read_meshes(archive)
    images = train_rows + test_rows
    with progress(f"rendering {len(meshes)} objects, {images} images each", len(meshes)) as update:
        x, y = render_all(meshes, images, seed, size, update)
    rows = np.arange(len(meshes) * images, dtype=np.int32).reshape(len(meshes), images)
    arrays = {"x": x.reshape(-1, size, size), "y": y.reshape(-1, 1)}
    arrays |= {"train_rows": rows[:, :train_rows], "test_rows": rows[:, train_rows:]}
    return Built(arrays, tuple(mesh.name for mesh in meshes))
