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
SPLITS = {"train": 64, "val": 16, "test": 20}  # Ravi and Larochelle's classes, in this order; the first 90 train here
EACH = 600  # images a class


class ImageClass(NamedTuple):
    """One class: WordNet id, readable name, and its encoded images in order of their number."""

    wnid: str
    name: str
    images: list[bytes | Path]


def contextual_miniimagenet(files: dict[str, Path], seed: int, *, size: int = NATIVE, held: int = 100) -> Built:
    """All images decoded, `size` pixels wide and high (smaller than 84 by the mean over each pixel's area)."""
    if not 4 <= size <= NATIVE:
        raise InputError(f"size must be 4..{NATIVE} pixels, got {size}")
    classes = _from_folder(files["images"], SPLITS, EACH) if "images" in files else _from_archives(files)
    each = len(classes[0].images)
    if not 0 <= held <= each - 2:
        raise InputError(f"held must be 0..{each - 2}, as a pair needs two of the {each} images of a class; got {held}")
    x = np.empty((len(classes), each, size, size, 3), np.uint8)
    with progress(f"decoding {len(classes) * each:,} images of mini-ImageNet", len(classes)) as update:

        def decode(number: int) -> None:
            for place, image in zip(x[number], classes[number].images, strict=True):
                place[...] = decoded(image, size)

        with ThreadPoolExecutor(os.cpu_count()) as threads:  # Pillow decodes without holding Python's lock
            for done, _ in enumerate(threads.map(decode, range(len(classes))), 1):
                update(done)
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
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
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


def _from_folder(folder: Path, splits: dict[str, int], each: int) -> list[ImageClass]:
    """The classes from a folder of images and, beside it, the split's `train.csv`, `val.csv` and `test.csv`.

    They must be all that is expected: so many classes a split, `each` images a class, and no image or class twice.
    """
    present = {path.name for path in folder.iterdir()}
    classes: dict[str, list[str]] = {}
    for split, expected in splits.items():
        table = folder.parent / f"{split}.csv"
        of_split: dict[str, list[str]] = {}
        for name, label in _rows(table):
            of_split.setdefault(label, []).append(name)
        if len(of_split) != expected:
            raise DataError(f"{table} lists {len(of_split)} classes, not {expected}; get the split's own file")
        if again := of_split.keys() & classes.keys():
            raise DataError(f"{table} lists class {min(again)}, as another split does; get the split's own files")
        classes |= of_split
    seen: set[str] = set()
    for label, names in classes.items():
        if len(names) != each:
            raise DataError(f"the csv files beside {folder} list {len(names)} images of class {label}, not {each}")
        if twice := seen.intersection(names) or {name for name in names if names.count(name) > 1}:
            raise DataError(f"the csv files beside {folder} list {min(twice)} twice; get the split's own files")
        if missing := set(names) - present:
            raise DataError(f"{folder} lacks {len(missing)} images of class {label}, the first is {min(missing)}")
        seen.update(names)
    return [ImageClass(label, label, [folder / name for name in sorted(names)]) for label, names in classes.items()]


def _rows(table: Path) -> list[tuple[str, str]]:
    """File name and label of each line."""
    try:
        with table.open(encoding="utf-8", newline="") as lines:
            rows = [(row["filename"], row["label"]) for row in csv.DictReader(lines)]
    except FileNotFoundError as error:
        raise DataError(f"{table} is missing; put the split's three csv files beside the folder of images") from error
    except (KeyError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{table} is no csv file with the columns filename and label; get the split's own") from error
    if not all(name and label for name, label in rows):
        raise DataError(f"{table} has a line without a file name or a label; get the split's own file")
    return rows
