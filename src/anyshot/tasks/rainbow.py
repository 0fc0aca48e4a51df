"""Handwritten digits in 56 looks: 7 background colours x 2 scales x 4 rotations (the paper's Rainbow MNIST)."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from jaxtyping import Int, Integer, UInt8

from anyshot.errors import DataError, InputError
from anyshot.limits import check_whole
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
MNIST_IMAGES = 60_000  # training images of MNIST
TEST_DIGITS, TRAIN_DIGITS = 500, 1_297  # how scikit-learn's 1,797 digits are divided

LOOKS = [(colour, half, turns) for colour in COLOURS for half in (False, True) for turns in range(4)]
LOOK_NAMES = tuple(f"{colour} {'half' if half else 'full'} {90 * turns}" for colour, half, turns in LOOKS)


def colour_digits(
    ink: UInt8[np.ndarray, "n h w"], colour: str, half: bool, quarter_turns: int
) -> UInt8[np.ndarray, "n h w 3"]:
    """Draw white digits on a coloured background.

    All arithmetic is in whole numbers, rounded to the nearest, so the result is the same on every machine.

    Args:
        ink: grey digits, 255 where there is ink.
        colour: a name in `COLOURS`.
        half: draw at half size, centred: a pixel is the mean of 2x2.
        quarter_turns: turns by 90 degrees, counter-clockwise.

    >>> print(colour_digits(np.array([[[0, 255], [0, 51]]], np.uint8), "indigo", half=False, quarter_turns=0)[0, 1])
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


def check_rainbow_mnist(train_rows: int, test_rows: int) -> None:
    """Raise `InputError` for settings that are out of range."""
    most = MNIST_IMAGES // len(LOOKS)
    check_whole("train_rows", train_rows, 1, most)
    check_whole("test_rows", test_rows, 0, most - 1)
    if train_rows + test_rows > most:
        raise InputError(
            f"train_rows + test_rows must be at most {most}, as tasks share no image, got {train_rows} + {test_rows}"
        )


def rainbow_mnist(files: dict[str, Path], seed: int, *, train_rows: int = 800, test_rows: int = 100) -> Built:
    """Build 56 looks from the training images of MNIST in random order; no image is in two tasks.

    Args:
        files: the images and labels of MNIST.
        seed: decides which image is in which task.
        train_rows: images of each task to train on.
        test_rows: images of each task to test on.
    """
    check_rainbow_mnist(train_rows, test_rows)
    ink = read_idx(files["train-images-idx3-ubyte.gz"], dimensions=3)
    labels = read_idx(files["train-labels-idx1-ubyte.gz"], dimensions=1)
    per_task = train_rows + test_rows
    images = permutation(len(ink), seed, "rainbow-mnist")[: per_task * len(LOOKS)].reshape(len(LOOKS), per_task)
    return _build_looks(ink, labels, images, train_rows)


def check_rainbow_digits(train_rows: int, test_rows: int) -> None:
    """Raise `InputError` for settings that are out of range."""
    check_whole("train_rows", train_rows, 1, TRAIN_DIGITS)
    check_whole("test_rows", test_rows, 0, TEST_DIGITS)


def rainbow_digits(files: dict[str, Path], seed: int, *, train_rows: int = 240, test_rows: int = 100) -> Built:
    """Build 56 looks from the 1,797 digits of 8x8 pixels that scikit-learn bundles, doubled to 16x16.

    There are too few digits to give each task its own. A task draws its train rows from 1,297 digits and its test rows
    from the 500 others. The same digit may appear in several tasks, but never as a train row in one and as a test row
    in another.

    Args:
        files: none.
        seed: decides which digit is in which task.
        train_rows: digits of each task to train on.
        test_rows: digits of each task to test on.
    """
    check_rainbow_digits(train_rows, test_rows)
    from sklearn.datasets import load_digits

    digits, labels = load_digits(return_X_y=True)
    ink = ((digits.astype(np.int64) * 255 + 8) // 16).astype(np.uint8).reshape(-1, 8, 8)
    ink = ink.repeat(2, axis=1).repeat(2, axis=2)
    order = permutation(len(ink), seed, "rainbow-digits")
    test, train = order[:TEST_DIGITS], order[TEST_DIGITS:]
    # The words "given" and "held" seed the permutations: another word would change the published task set.
    images = [
        np.concatenate(
            [
                train[permutation(len(train), seed, "rainbow-digits given", look)[:train_rows]],
                test[permutation(len(test), seed, "rainbow-digits held", look)[:test_rows]],
            ]
        )
        for look in LOOK_NAMES
    ]
    return _build_looks(ink, labels, np.stack(images), train_rows)


def _build_looks(
    ink: UInt8[np.ndarray, "digits h w"],
    labels: Integer[np.ndarray, " digits"],
    images: Int[np.ndarray, "looks per_task"],
    train_rows: int,
) -> Built:
    """One task per look; row `i` of `images` numbers the digits of task `i`, those to train on first."""
    x = np.concatenate([colour_digits(ink[chosen], *look) for look, chosen in zip(LOOKS, images, strict=True)])
    rows = np.arange(images.size, dtype=np.int32).reshape(images.shape)
    source = images.reshape(-1)
    arrays = {"x": x, "y": labels[source].astype(np.int32), "source": source.astype(np.int32)}
    arrays |= {"train_rows": rows[:, :train_rows], "test_rows": rows[:, train_rows:]}
    return Built(arrays, LOOK_NAMES, train_tasks=20)


def read_idx(path: Path, dimensions: int) -> UInt8[np.ndarray, "..."]:
    """Read an array of bytes in MNIST's format, compressed or not: a magic number, the sizes, then the bytes."""
    content = path.read_bytes()
    content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    start = 4 * (1 + dimensions)
    magic, *shape = np.frombuffer(content[:start], ">u4").tolist()
    if magic != 0x800 + dimensions or len(content) != start + np.prod(shape):
        raise DataError(f"{path} is not an idx file of bytes with {dimensions} dimensions; fetch it again")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
