"""Handwritten digits in 56 looks: 7 background colours x 2 scales x 4 rotations (the paper's Rainbow MNIST)."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from jaxtyping import Int, Integer, UInt8

from anyshot.errors import DataError, InputError
from anyshot.tasks.built import Built
from anyshot.tasks.randomness import permutation

COLOURS = {
    "red": (255, 0, 0),
    "orange": (255, 127, 0),
    "yellow": (255, 255, 0),
    "green": (0, 255, 0),
    "blue": (0, 0, 255),
    "indigo": (75, 0, 130),
    "violet": (148, 0, 211),
}
LOOKS = [(colour, half, turns) for colour in COLOURS for half in (False, True) for turns in range(4)]
LOOK_NAMES = tuple(f"{colour} {'half' if half else 'full'} {90 * turns}" for colour, half, turns in LOOKS)


def coloured(
    ink: UInt8[np.ndarray, "n h w"], colour: str, half: bool, quarter_turns: int
) -> UInt8[np.ndarray, "n h w 3"]:
    """White digits on a coloured background; at half size the mean of 2x2 pixels, centred; turned counter-clockwise.

    Whole numbers throughout, rounded to the nearest, so that the result is the same everywhere.

    >>> print(coloured(np.array([[[0, 255], [0, 51]]], np.uint8), "indigo", half=False, quarter_turns=0)[0, 1])
    [[ 75   0 130]
     [111  51 155]]
    """
    height, width = ink.shape[1:]
    wide = ink.astype(np.uint32)
    if half:
        small = (wide.reshape(-1, height // 2, 2, width // 2, 2).sum(axis=(2, 4)) + 2) // 4
        top, left = (height - height // 2) // 2, (width - width // 2) // 2
        below, right = height - height // 2 - top, width - width // 2 - left
        wide = np.pad(small, ((0, 0), (top, below), (left, right)))
    wide = np.rot90(wide, quarter_turns, axes=(1, 2))[..., None]
    background = np.array(COLOURS[colour], np.uint32)
    return ((255 * wide + background * (255 - wide) + 127) // 255).astype(np.uint8)


def rainbow_mnist(files: dict[str, Path], seed: int, *, given: int = 800, held: int = 100) -> Built:
    """The 60,000 training images of MNIST in random order, `given` + `held` different ones for each of the 56 looks."""
    ink = read_idx(files["train-images-idx3-ubyte.gz"], dimensions=3)
    labels = read_idx(files["train-labels-idx1-ubyte.gz"], dimensions=1)
    each = given + held
    if given < 1 or held < 0 or each * len(LOOKS) > len(ink):
        raise InputError(
            f"given and held must be at least 1 and 0, and at most {len(ink) // len(LOOKS)} together, as the tasks "
            f"share no image; got {given} and {held}"
        )
    images = permutation(len(ink), seed, "rainbow-mnist")[: each * len(LOOKS)].reshape(len(LOOKS), each)
    return _of_looks(ink, labels, images, given)


def rainbow_digits(files: dict[str, Path], seed: int, *, given: int = 240, held: int = 100) -> Built:
    """The 1,797 digits of 8x8 pixels that scikit-learn bundles, doubled to 16x16, in the same 56 looks.

    They are too few to give each task its own, so a task has `given` of 1,297 digits and `held` of the 500 others:
    the same digit may turn up in another look, but never one that is held for testing.
    """
    from sklearn.datasets import load_digits

    digits, labels = load_digits(return_X_y=True)
    ink = ((digits.astype(np.int64) * 255 + 8) // 16).astype(np.uint8).reshape(-1, 8, 8)
    ink = ink.repeat(2, axis=1).repeat(2, axis=2)
    order = permutation(len(ink), seed, "rainbow-digits")
    for_testing, to_give = order[:500], order[500:]
    if not (1 <= given <= len(to_give) and 0 <= held <= len(for_testing)):
        raise InputError(f"given must be 1..{len(to_give)} and held 0..{len(for_testing)}, got {given} and {held}")
    images = [
        np.concatenate(
            [
                to_give[permutation(len(to_give), seed, "rainbow-digits given", look)[:given]],
                for_testing[permutation(len(for_testing), seed, "rainbow-digits held", look)[:held]],
            ]
        )
        for look in LOOK_NAMES
    ]
    return _of_looks(ink, labels, np.stack(images), given)


def _of_looks(
    ink: UInt8[np.ndarray, "digits h w"],
    labels: Integer[np.ndarray, " digits"],
    images: Int[np.ndarray, "looks each"],
    given: int,
) -> Built:
    """One task per look, made of the digits named in its row of `images`."""
    x = np.concatenate([coloured(ink[chosen], *look) for look, chosen in zip(LOOKS, images, strict=True)])
    rows = np.arange(images.size, dtype=np.int32).reshape(images.shape)
    arrays = {"x": x, "y": labels[images.reshape(-1)].astype(np.int32), "source": images.reshape(-1).astype(np.int32)}
    return Built(arrays | {"given": rows[:, :given], "held": rows[:, given:]}, LOOK_NAMES, train_tasks=20)


def read_idx(path: Path, dimensions: int) -> UInt8[np.ndarray, "..."]:
    """An array of bytes in MNIST's format, gzip'd or not: magic number, sizes, then the bytes."""
    content = path.read_bytes()
    content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    start = 4 * (1 + dimensions)
    magic, *shape = np.frombuffer(content[:start], ">u4").tolist()
    if magic != 0x800 + dimensions or len(content) != start + np.prod(shape):
        raise DataError(f"{path} is not an idx file of bytes with {dimensions} dimensions; fetch it anew")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
