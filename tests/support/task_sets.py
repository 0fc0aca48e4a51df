"""Small task sets in which one can see what was drawn, and a small mini-ImageNet on disk."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
from PIL import Image

from anyshot.tasks import TaskSet

KEY = jax.random.key(0)


def make_toy(kind: type[TaskSet] = TaskSet, num_tasks: int = 5, train: int = 6, test: int = 4) -> TaskSet:
    """Examples that are their own row number, labels that are their task."""
    rows = np.arange(num_tasks * (train + test)).reshape(num_tasks, -1)
    names = tuple(f"task {task}" for task in range(num_tasks))
    labels = np.arange(num_tasks).repeat(train + test)
    return kind("toy", rows.reshape(-1), labels, rows[:, :train], rows[:, train:], names, "f", train_tasks=3)


def write_miniimagenet(folder: Path, classes: int, images: int) -> np.ndarray:
    """mini-ImageNet as it is downloaded: `images/`, and three csv files beside it; returns the colour of each image."""
    colours = np.random.default_rng(0).integers(0, 256, (classes, images, 3), np.uint8)
    (folder / "images").mkdir(parents=True)
    splits: dict[str, list[str]] = {"train": [], "val": [], "test": []}
    for number in range(classes):
        split = "train" if number < classes - 2 else "val" if number == classes - 2 else "test"
        for image in range(images):
            file = f"n{number:08d}{image:08d}.jpg"
            Image.fromarray(np.full((100, 120, 3), colours[number, image])).save(folder / "images" / file, quality=95)
            splits[split].append(f"{file},n{number:08d}")
    for split, lines in splits.items():
        lines = lines[::-1] if split == "train" else lines  # order inside a class must not matter
        (folder / f"{split}.csv").write_text("\n".join(["filename,label", *lines]))
    return colours
