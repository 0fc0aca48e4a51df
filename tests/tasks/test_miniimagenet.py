"""mini-ImageNet from a folder of images: built once, and refused if anything in the folder is wrong."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from anyshot.errors import DataError
from anyshot.tasks import load_tasks, miniimagenet
from anyshot.tasks.miniimagenet import contextual_miniimagenet
from tests.support.task_sets import write_miniimagenet

pytestmark = pytest.mark.medium

SMALL = {"train": 2, "val": 1, "test": 1}  # classes of the splits here


def test_miniimagenet_from_a_folder_of_images(no_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    colours = write_miniimagenet(no_data / "miniimagenet", classes=4, images=5)
    monkeypatch.setattr(miniimagenet, "SPLITS", SMALL)
    monkeypatch.setattr(miniimagenet, "IMAGES", 5)
    built = contextual_miniimagenet({"images": no_data / "miniimagenet/images"}, 0, size=42, test_rows=2)
    shown = built.arrays["x"].reshape(4, 5, 42, 42, 3).astype(int)
    expected = colours[[1, 0, 2, 3]].astype(int)  # the train classes were listed backwards
    assert np.abs(shown - expected[:, :, None, None]).max() < 12, "JPEG changes colours a little"
    monkeypatch.setenv("ANYSHOT_DATA", str(no_data))
    loaded = load_tasks("contextual-miniimagenet", size=42, test_rows=2)
    assert (loaded.num_tasks, loaded.train_rows.shape, loaded.test_rows.shape) == (4, (4, 3), (4, 2))
    # It is built once, and again when a file changes.
    monkeypatch.setattr(miniimagenet, "decode_image", lambda *_: pytest.fail("decoded again"))
    assert load_tasks("contextual-miniimagenet", size=42, test_rows=2).fingerprint == loaded.fingerprint
    monkeypatch.undo()
    monkeypatch.setenv("ANYSHOT_DATA", str(no_data))
    monkeypatch.setenv("ANYSHOT_CACHE", str(no_data / "cache"))
    monkeypatch.setattr(miniimagenet, "SPLITS", SMALL)
    monkeypatch.setattr(miniimagenet, "IMAGES", 5)
    image = next((no_data / "miniimagenet/images").iterdir())
    Image.fromarray(np.zeros((84, 84, 3), np.uint8)).save(image)
    assert load_tasks("contextual-miniimagenet", size=42, test_rows=2).fingerprint != loaded.fingerprint


def lines_of(table: Path) -> list[str]:
    return table.read_text().splitlines()


def write_lines(table: Path, lines: list[str], encoding: str = "utf-8") -> None:
    table.write_bytes("\n".join(lines).encode(encoding))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda folder: (folder / "val.csv").unlink(), "val.csv is missing"),
        (lambda folder: write_lines(folder / "val.csv", ["file,class", "a,b"]), "columns filename and label"),
        (lambda folder: write_lines(folder / "val.csv", ["filename,label", "é.jpg,b"], "latin-1"), "columns filename"),
        (lambda folder: write_lines(folder / "val.csv", ["filename,label", "a.jpg"]), "without a file name or a label"),
        (lambda folder: write_lines(folder / "val.csv", ["filename,label"]), "val.csv lists 0 classes, not 1"),
        (lambda folder: shutil.copy(folder / "val.csv", folder / "test.csv"), "as another split does"),
        (
            lambda folder: write_lines(folder / "val.csv", lines_of(folder / "val.csv")[:-1]),
            "4 images of class n00000002",
        ),
        (
            lambda folder: write_lines(
                folder / "val.csv", [*lines_of(folder / "val.csv")[:-1], lines_of(folder / "val.csv")[1]]
            ),
            "n0000000200000000.jpg twice",
        ),
        (
            lambda folder: write_lines(
                folder / "val.csv",
                [line.replace("n00000002000", "n00000003000") for line in lines_of(folder / "val.csv")],
            ),
            "n0000000300000000.jpg twice",
        ),
        (lambda folder: (folder / "images/n0000000200000001.jpg").unlink(), "lacks 1 images of class n00000002"),
        (lambda folder: (folder / "images/n0000000200000001.jpg").write_bytes(b""), "n0000000200000001.jpg cannot"),
        (
            lambda folder: Image.new("1", (20_000, 20_000)).save(folder / "images/n0000000200000001.jpg", "PNG"),
            "n0000000200000001.jpg cannot be decoded",
        ),
    ],
)
def test_a_folder_of_other_images_is_refused(
    harm: Callable[[Path], object], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_miniimagenet(tmp_path, classes=4, images=5)
    monkeypatch.setattr(miniimagenet, "SPLITS", SMALL)
    monkeypatch.setattr(miniimagenet, "IMAGES", 5)
    files = {"images": tmp_path / "images"}
    assert len(contextual_miniimagenet(files, 0, size=8, test_rows=2).task_names) == 4
    harm(tmp_path)
    with pytest.raises(DataError, match=message):
        contextual_miniimagenet(files, 0, size=8, test_rows=2)
