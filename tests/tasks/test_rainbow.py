"""Rainbow MNIST and digits: compared with the definition, pixel by pixel."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshot.tasks import load_tasks
from anyshot.tasks.rainbow import COLOURS, LOOKS, colour_digits, rainbow_digits

pytestmark = pytest.mark.medium

MNIST = ("images-idx3", "labels-idx1")


def naive_look(ink: np.ndarray, colour: str, half: bool, turns: int) -> np.ndarray:
    """One image, pixel by pixel, in floating point: the definition in words of the design."""
    size = len(ink)
    canvas = np.zeros((size, size))
    for i in range(size):
        for j in range(size):
            if not half:
                canvas[i, j] = ink[i, j]
            elif size // 4 <= i < size // 4 + size // 2 and size // 4 <= j < size // 4 + size // 2:
                a, b = 2 * (i - size // 4), 2 * (j - size // 4)
                canvas[i, j] = np.floor(
                    (float(ink[a, b]) + ink[a, b + 1] + ink[a + 1, b] + ink[a + 1, b + 1]) / 4 + 0.5
                )
    for _ in range(turns):  # a quarter turn counter-clockwise: the right-hand column becomes the top row
        canvas = np.array([[canvas[j, size - 1 - i] for j in range(size)] for i in range(size)])
    share = canvas[..., None] / 255
    return np.round(share * 255 + (1 - share) * np.array(COLOURS[colour])).astype(int)


def test_rainbow_mnist_is_what_the_paper_says(with_data: Path) -> None:
    tasks = load_tasks("rainbow-mnist")
    images, labels = (gzip.decompress((with_data / f"mnist/train-{file}-ubyte.gz").read_bytes()) for file in MNIST)
    images = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 28, 28)
    labels = np.frombuffer(labels, np.uint8, offset=8)
    source = np.load(next(Path(tasks.x.filename).parent.glob("source.npy")))
    rows = np.concatenate([tasks.train_rows, tasks.test_rows], axis=1)
    assert rows.shape == (56, 900)
    assert len(np.unique(rows)) == len(np.unique(source)) == 50_400 == len(source)
    assert (labels[source] == tasks.y).all()
    assert len(set(tasks.task_names)) == 56
    assert (len(tasks.offline_split()[0].task_names), tasks.x.dtype) == (20, np.uint8)
    for task, (colour, half, turns) in enumerate(LOOKS):
        assert tasks.task_names[task] == f"{colour} {'half' if half else 'full'} {90 * turns}"
        for row in rows[task, [0, 850]]:
            difference = naive_look(images[source[row]], colour, half, turns) - tasks.x[row].astype(int)
            assert np.abs(difference).max() <= (0 if colour != "orange" else 1)  # 127 x k / 255 may tie


def test_rainbow_mnist_builds_in_ten_seconds_and_a_gigabyte(with_data: Path, tmp_path: Path) -> None:
    program = """
import re, time; started = time.process_time()
from anyshot.tasks import load_tasks
load_tasks("rainbow-mnist"); seconds = time.process_time() - started
print(seconds, re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])"""
    environment = {"ANYSHOT_DATA": str(with_data), "ANYSHOT_CACHE": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    seconds, kibibytes = map(float, ran.stdout.split())
    assert seconds < 10
    assert kibibytes < 2**20


@given(st.integers(0, 255), st.integers(0, 3), st.booleans(), st.sampled_from(sorted(COLOURS)))
def test_a_flat_digit_keeps_its_shade(level: int, turns: int, half: bool, colour: str) -> None:
    image = colour_digits(np.full((1, 8, 8), level, np.uint8), colour, half, turns)[0]
    shade = (level * 255 + (255 - level) * np.array(COLOURS[colour]) + 127) // 255
    assert (image[4, 4] == shade).all()
    assert (image[0, 0] == (COLOURS[colour] if half else shade)).all()


def test_rainbow_digits_never_trains_on_a_test_digit() -> None:
    built = rainbow_digits({}, seed=3)
    source, train, test = (built.arrays[name] for name in ("source", "train_rows", "test_rows"))
    assert not set(source[train].ravel().tolist()) & set(source[test].ravel().tolist())
    assert all(len(set(source[rows].tolist())) == len(rows) for rows in [*train, *test])
