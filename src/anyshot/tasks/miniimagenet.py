"""Contextual MiniImageNet: each class of mini-ImageNet is a task, to tell its images from those of other classes."""

from __future__ import annotations

import csv
import io
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from anyshot.errors import DataError
from anyshot.limits import check_whole
from anyshot.tasks.built import Built
from anyshot.tasks.progress import progress
from anyshot.tasks.randomness import permutation

NATIVE = 84  # pixels a side
SPLITS = {"train": 64, "val": 16, "test": 20}  # classes of Ravi and Larochelle's split, in this order
TRAIN_CLASSES = 90  # the offline split here: the first 90 classes train
IMAGES = 600  # of a class


class ImageClass(NamedTuple):
    """One class: its WordNet id, a readable name, and its encoded images in the order of their numbers."""

    wnid: str
    name: str
    images: list[bytes | Path]


def check_miniimagenet(size: int, test_rows: int) -> None:
    """Raise `InputError` for settings that are out of range; a pair needs two images of a class to train on."""
    check_whole("size", size, 4, NATIVE)
    check_whole("test_rows", test_rows, 0, IMAGES - 2)


def contextual_miniimagenet(files: dict[str, Path], seed: int, *, size: int = NATIVE, test_rows: int = 100) -> Built:
    """Decode all images.

    Args:
        files: the packed files, or `images`: a folder of JPEGs with the csv files of the split beside it.
        seed: decides which images of a class are for testing.
        size: pixels a side; below 84 a pixel is the mean over its area.
        test_rows: images of each class that are for testing.
    """
    check_miniimagenet(size, test_rows)
    classes = _read_folder(files["images"]) if "images" in files else _read_archives(files)
    x = _decode_classes(classes, size)
    in_order = np.arange(len(classes) * IMAGES, dtype=np.int32).reshape(len(classes), IMAGES)
    shuffled = [
        row[permutation(IMAGES, seed, "mini-ImageNet", image_class.wnid)]
        for row, image_class in zip(in_order, classes, strict=True)
    ]
    rows, train_rows = np.stack(shuffled), IMAGES - test_rows
    arrays: dict[str, np.ndarray] = {"x": x.reshape(-1, size, size, 3)}
    arrays |= {"y": np.arange(len(classes), dtype=np.int32).repeat(IMAGES)}
    arrays |= {"train_rows": rows[:, :train_rows], "test_rows": rows[:, train_rows:]}
    return Built(arrays, tuple(image_class.name for image_class in classes), train_tasks=TRAIN_CLASSES)


def _decode_classes(classes: list[ImageClass], size: int) -> UInt8[np.ndarray, "classes images size size 3"]:
    x = np.empty((len(classes), IMAGES, size, size, 3), np.uint8)
    with progress(f"decoding {len(classes) * IMAGES:,} images of mini-ImageNet", len(classes)) as update:

        def decode(number: int) -> None:
            for target, image in zip(x[number], classes[number].images, strict=True):
                target[...] = decode_image(image, size)

        with ThreadPoolExecutor(os.cpu_count()) as threads:  # Pillow releases Python's lock while it decodes
            for done, _ in enumerate(threads.map(decode, range(len(classes))), 1):
                update(done)
    return x


def decode_image(image: bytes | Path, size: int) -> UInt8[np.ndarray, "size size 3"]:
    """A JPEG as an array of `size` x `size` pixels."""
    try:
        with Image.open(io.BytesIO(image) if isinstance(image, bytes) else image) as opened:
            picture = opened.convert("RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        where = image if isinstance(image, Path) else "an image of mini-ImageNet"
        raise DataError(f"{where} cannot be decoded ({error}); replace the file") from error
    if picture.size != (NATIVE, NATIVE):
        picture = picture.resize((NATIVE, NATIVE), Image.Resampling.LANCZOS)
    if size != NATIVE:
        picture = picture.resize((size, size), Image.Resampling.BOX)
    return np.asarray(picture)


def _read_archives(files: dict[str, Path]) -> list[ImageClass]:
    """Read `train_0.npz`, `train_1.npz`, `val.npz`, `test.npz` (each with its JPEGs in one array) and `classes.csv`."""
    with files["classes.csv"].open(encoding="utf-8", newline="") as lines:
        names = {row["wnid"]: row["name"] for row in csv.DictReader(lines)}
    classes = []
    for archive in ("train_0.npz", "train_1.npz", "val.npz", "test.npz"):
        with np.load(files[archive], allow_pickle=False) as content:
            jpeg, offsets, labels = content["jpeg"].tobytes(), content["offsets"], content["label"]
            numbers, wnids = content["image_number"], content["wnids"]
        for label in np.unique(labels):
            rows = np.flatnonzero(labels == label)
            rows = rows[np.argsort(numbers[rows], kind="stable")]
            images: list[bytes | Path] = [jpeg[offsets[row] : offsets[row + 1]] for row in rows]
            classes.append(ImageClass(str(wnids[label]), names[str(wnids[label])].split(",")[0], images))
    return classes


def _read_folder(folder: Path) -> list[ImageClass]:
    """Read a folder of images and, beside it, the split's `train.csv`, `val.csv` and `test.csv`.

    The number of classes of each split and of images of each class must be right, and no image or class may be listed
    twice.
    """
    present = {path.name for path in folder.iterdir()}
    classes: dict[str, list[str]] = {}
    for split, expected in SPLITS.items():
        table = folder.parent / f"{split}.csv"
        of_split: dict[str, list[str]] = {}
        for name, label in _read_table(table):
            of_split.setdefault(label, []).append(name)
        if len(of_split) != expected:
            raise DataError(f"{table} lists {len(of_split)} classes, not {expected}; get the split's own file")
        if again := of_split.keys() & classes.keys():
            raise DataError(f"{table} lists class {min(again)}, as another split does; get the split's own files")
        classes |= of_split
    seen: set[str] = set()
    for label, names in classes.items():
        if len(names) != IMAGES:
            raise DataError(f"the csv files beside {folder} list {len(names)} images of class {label}, not {IMAGES}")
        if twice := seen.intersection(names) or {name for name in names if names.count(name) > 1}:
            raise DataError(f"the csv files beside {folder} list {min(twice)} twice; get the split's own files")
        if missing := set(names) - present:
            raise DataError(f"{folder} lacks {len(missing)} images of class {label}, the first is {min(missing)}")
        seen.update(names)
    return [ImageClass(label, label, [folder / name for name in sorted(names)]) for label, names in classes.items()]


def _read_table(table: Path) -> list[tuple[str, str]]:
    """The file name and the label in each line."""
    try:
        with table.open(encoding="utf-8", newline="") as lines:
            rows = [(row["filename"], row["label"]) for row in csv.DictReader(lines)]
    except FileNotFoundError as error:
        raise DataError(f"{table} is missing; put the split's three csv files beside the folder of images") from error
    except (KeyError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(
            f"{table} is not a csv file with the columns filename and label; get the split's own file"
        ) from error
    if not all(name and label for name, label in rows):
        raise DataError(f"{table} has a line without a file name or a label; get the split's own file")
    return rows
