"""Omniglot: 1,623 handwritten characters, drawn by 20 people each, for N-way K-shot episodes."""

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
from anyshot.tasks.built import Built
from anyshot.tasks.progress import progress
from anyshot.tasks.randomness import permutation

TRAIN_CHARACTERS = 1200  # the usual split: 1,200 characters at random to train, 423 to test


def omniglot(files: dict[str, Path], seed: int, *, size: int = 28, rotations: int = 4) -> Built:
    """Characters in random order, ink 255 on 0; each turned by 90 degrees, `rotations` - 1 times, is a class more."""
    if not 4 <= size <= 105:
        raise InputError(f"size must be 4..105 pixels, got {size}")
    if rotations not in (1, 2, 4):
        raise InputError(f"rotations must be 1, 2 or 4, got {rotations}")
    characters: dict[str, list[bytes]] = {}
    for archive in ("images_background.zip", "images_evaluation.zip"):
        with zipfile.ZipFile(files[archive]) as opened:
            for member in sorted(name for name in opened.namelist() if name.endswith(".png")):
                alphabet, character = member.split("/")[-3:-1]
                characters.setdefault(f"{alphabet} {character.removeprefix('character')}", []).append(
                    opened.read(member)
                )
    with progress(f"decoding {sum(map(len, characters.values())):,} drawings of Omniglot", len(characters)) as update:

        def decode(drawings: list[bytes]) -> UInt8[np.ndarray, "drawings size size"]:
            return np.stack([_decoded(drawing, size) for drawing in drawings])

        images = []
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            for decoded in threads.map(decode, characters.values()):
                images.append(decoded)
                update(len(images))
    order = permutation(len(characters), seed, "omniglot")
    upright = np.stack(images)[order]
    turned = np.stack([np.rot90(upright, turns, axes=(2, 3)) for turns in range(rotations)], axis=1)
    names = tuple(f"{list(characters)[character]} {90 * turns}" for character in order for turns in range(rotations))
    each = upright.shape[1]
    rows = np.arange(len(names) * each, dtype=np.int32).reshape(len(names), each)
    arrays = {"x": turned.reshape(-1, size, size, 1), "y": np.arange(len(names), dtype=np.int32).repeat(each)}
    return Built(arrays | {"given": rows, "held": rows[:, :0]}, names, train_tasks=TRAIN_CHARACTERS * rotations)


def _decoded(drawing: bytes, size: int) -> UInt8[np.ndarray, "size size"]:
    with Image.open(io.BytesIO(drawing)) as opened:
        small = opened.convert("L").resize((size, size), Image.Resampling.LANCZOS)
    return 255 - np.asarray(small)
