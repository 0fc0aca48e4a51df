"""Contextual MiniImageNet: every class of mini-ImageNet is a task of telling its images from all others."""

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

from anyshot.errors import DataError, InputError
from anyshot.tasks.built import Built
from anyshot.tasks.progress import progress
from anyshot.tasks.randomness import permutation

NATIVE = 84
SPLITS = ("train", "val", "test")  # Ravi and Larochelle's 64 + 16 + 20 classes, in this order; the first 90 train here


class ImageClass(NamedTuple):
    """One class: WordNet id, readable name, and its encoded images in order of their number."""

    wnid: str
    name: str
    images: list[bytes | Path]


def contextual_miniimagenet(files: dict[str, Path], seed: int, *, size: int = NATIVE, held: int = 100) -> Built:
    """All images decoded, `size` pixels wide and high (smaller than 84 by the mean over each pixel's area)."""
    if not 4 <= size <= NATIVE:
        raise InputError(f"size must be 4..{NATIVE} pixels, got {size}")
    classes = _from_folder(files["images"]) if "images" in files else _from_archives(files)
    each = len(classes[0].images)
    if not 0 <= held <= each - 2:
        raise InputError(f"held must be 0..{each - 2}, as a pair needs two of the {each} images of a class; got {held}")
    x = np.empty((len(classes), each, size, size, 3), np.uint8)
    with progress(f"decoding {len(classes) * each:,} images of mini-ImageNet", len(classes)) as advance:

        def decode(number: int) -> None:
            for place, image in zip(x[number], classes[number].images, strict=True):
                place[...] = decoded(image, size)

        with ThreadPoolExecutor(os.cpu_count()) as threads:  # Pillow decodes without holding Python's lock
            for _ in threads.map(decode, range(len(classes))):
                advance(1)
    in_order = np.arange(len(classes) * each, dtype=np.int32).reshape(len(classes), each)
    rows = np.stack(
        [row[permutation(each, seed, "mini-ImageNet", one.wnid)] for row, one in zip(in_order, classes, strict=True)]
    )
    arrays: dict[str, np.ndarray] = {"x": x.reshape(-1, size, size, 3)}
    arrays |= {"y": np.arange(len(classes), dtype=np.int32).repeat(each)}
    names = tuple(one.name for one in classes)
    return Built(arrays | {"given": rows[:, : each - held], "held": rows[:, each - held :]}, names, train_tasks=90)


def decoded(image: bytes | Path, size: int) -> UInt8[np.ndarray, "size size 3"]:
    """A JPEG as an array of `size` x `size` pixels."""
    try:
        with Image.open(io.BytesIO(image) if isinstance(image, bytes) else image) as opened:
            picture = opened.convert("RGB")
    except (OSError, SyntaxError) as error:
        where = image if isinstance(image, Path) else "an image of mini-ImageNet"
        raise DataError(f"{where} cannot be decoded ({error}); replace the file") from error
    if picture.size != (NATIVE, NATIVE):
        picture = picture.resize((NATIVE, NATIVE), Image.Resampling.LANCZOS)
    if size != NATIVE:
        picture = picture.resize((size, size), Image.Resampling.BOX)
    return np.asarray(picture)


def _from_archives(files: dict[str, Path]) -> list[ImageClass]:
    """The classes from `train_0.npz`, `train_1.npz`, `val.npz`, `test.npz` (JPEGs end to end) and `classes.csv`."""
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


def _from_folder(folder: Path) -> list[ImageClass]:
    """The classes from a folder of images and, beside it, the split's `train.csv`, `val.csv` and `test.csv`."""
    classes: dict[str, list[bytes | Path]] = {}
    for split in SPLITS:
        table = folder.parent / f"{split}.csv"
        if not table.is_file():
            raise DataError(f"{folder} holds images, but {table} is missing; put the split's three csv files there")
        with table.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                classes.setdefault(row["label"], []).append(folder / row["filename"])
    if len({len(images) for images in classes.values()}) != 1:
        raise DataError(f"the csv files beside {folder} list classes of different sizes; get the split's own files")
    return [ImageClass(wnid, wnid, sorted(images)) for wnid, images in classes.items()]
