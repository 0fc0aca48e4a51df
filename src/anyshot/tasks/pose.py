"""Pose prediction: the orientation of 65 objects, each seen by a camera of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from anyshot.errors import InputError
from anyshot.tasks.built import Built
from anyshot.tasks.meshes import read_meshes
from anyshot.tasks.progress import progress
from anyshot.tasks.render import render_all


def pose(files: dict[str, Path], seed: int, *, given: int = 100, held: int = 50, size: int = 128) -> Built:
    """`given` + `held` grey images of every object at random angles; the target is the angle over 2 pi.

    The paper renders 100 an object and gives out up to 96; what it tests on is then not said, so 50 more are held.
    """
    if given < 1 or held < 0 or not 8 <= size <= 512:
        raise InputError(f"given must be at least 1, held at least 0, size 8..512; got {given}, {held} and {size}")
    (archive,) = files.values()
    meshes = read_meshes(archive)
    images = given + held
    with progress(f"rendering {len(meshes)} objects, {images} images each", len(meshes)) as update:
        x, y = render_all(meshes, images, seed, size, update)
    rows = np.arange(len(meshes) * images, dtype=np.int32).reshape(len(meshes), images)
    arrays = {"x": x.reshape(-1, size, size), "y": y.reshape(-1, 1)}
    names = tuple(mesh.name for mesh in meshes)
    return Built(arrays | {"given": rows[:, :given], "held": rows[:, given:]}, names)
