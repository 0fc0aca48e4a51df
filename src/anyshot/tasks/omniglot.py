"""Omniglot: 1,623 handwritten characters, each drawn by 20 people, for N-way K-shot episodes."""

from __future__ import annotations

import io
import os
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from anyshot.errors import InputError
from anyshot.limits import check_whole
from anyshot.tasks.built import Built
from anyshot.tasks.progress import progress
from anyshot.tasks.randomness import permutation

NATIVE = 105  # pixels a side of the original drawings
TRAIN_CHARACTERS = 1200  # the usual split: 1,200 characters at random to train, 423 to test


def check_omniglot(size: int, rotations: int) -> None:
    """Raise `InputError` for settings that are out of range."""
    check_whole("size", size, 4, NATIVE)
    if rotations not in (1, 2, 4):
        raise InputError(f"rotations must be 1, 2 or 4, got {rotations}")


def omniglot(files: dict[str, Path], seed: int, *, size: int = 28, rotations: int = 4) -> Built:
    """Build the characters in random order, ink 255 on 0; each rotation of a character is a class of its own.

    Args:
        files: `images_background.zip` and `images_evaluation.zip`.
        seed: of the order of the characters.
        size: pixels a side.
        rotations: 1 (upright only), 2 (also turned by 90 degrees) or 4.
    """
    check_omniglot(size, rotations)
    characters = _read_drawings(files)
    with progress(f"decoding {sum(map(len, characters.values())):,} drawings of Omniglot", len(characters)) as update:

        def decode(drawings: list[bytes]) -> UInt8[np.ndarray, "drawings size size"]:
            return np.stack([_decode_drawing(drawing, size) for drawing in drawings])

        images = []
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            for decoded in threads.map(decode, characters.values()):
                images.append(decoded)
                update(len(images))
    order = permutation(len(characters), seed, "omniglot")
    upright = np.stack(images)[order]
    rotated = np.stack([np.rot90(upright, turns, axes=(2, 3)) for turns in range(rotations)], axis=1)
    labels = list(characters)
    names = tuple(f"{labels[character]} {90 * turns}" for character in order for turns in range(rotations))
    per_class = upright.shape[1]
    rows = np.arange(len(names) * per_class, dtype=np.int32).reshape(len(names), per_class)
    arrays = {"x": rotated.reshape(-1, size, size, 1), "y": np.arange(len(names), dtype=np.int32).repeat(per_class)}
    arrays |= {"train_rows": rows, "test_rows": rows[:, :0]}
    return Built(arrays, names, train_tasks=TRAIN_CHARACTERS * rotations)


def _read_drawings(files: dict[str, Path]) -> dict[str, list[bytes]]:
    """The PNG files of each character, by alphabet and number."""
    characters: dict[str, list[bytes]] = {}
    for archive in ("images_background.zip", "images_evaluation.zip"):
        with zipfile.ZipFile(files[archive]) as opened:
            for member in sorted(name for name in opened.namelist() if name.endswith(".png")):
                alphabet, character = member.split("/")[-3:-1]
                label = f"{alphabet} {character.removeprefix('character')}"
                characters.setdefault(label, []).append(opened.read(member))
    return characters


def _decode_drawing(drawing: bytes, size: int) -> UInt8[np.ndarray, "size size"]:
    with Image.open(io.BytesIO(drawing)) as opened:
        small = opened.convert("L").resize((size, size), Image.Resampling.LANCZOS)
    return 255 - np.asarray(small)
