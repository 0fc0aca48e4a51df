"""Image files of all kinds become arrays of one size; folders of them become tasks, or one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from anyshot.errors import DataError, InputError
from anyshot.tasks import ImageEncoder, TaskSet

COLOURS = {"red": (255, 0, 0), "green": (0, 128, 0), "blue": (0, 0, 255)}


def write(path: Path, colour: str, size: tuple[int, int] = (9, 7), mode: str = "RGB") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for colour in ("red", "green"):
        for number in range(4):
            write(tmp_path / "images" / "paint" / colour / f"{number}.png", colour, (number + 3, 5))
    for number in range(3):
        write(tmp_path / "images" / "light" / "blue" / f"{number}.PNG", "blue")
    write(tmp_path / "images" / "light" / "red" / "0.bmp", "red")
    write(tmp_path / "images" / "light" / "red" / ".hidden.png", "blue")
    (tmp_path / "images" / "light" / "red" / "Thumbs.db").write_text("no image")
    (tmp_path / "images" / "light" / "green").mkdir()
    (tmp_path / "images" / ".git").mkdir()
    return tmp_path / "images"


def test_a_folder_of_images_becomes_tasks(folder: Path) -> None:
    tasks = TaskSet.from_folder(folder, size=(4, 6), test_size=1)
    assert (tasks.name, tasks.task_names) == ("images", ("light", "paint"))
    assert (tasks.x.shape, tasks.x.dtype) == ((12, 4, 6, 3), np.uint8)
    assert tasks.class_names == ("blue", "green", "red")
    assert tasks.counts("train").tolist() == [3, 7]
    for image, name in zip(tasks.x, tasks.decode(tasks.y), strict=True):
        assert (image == COLOURS[name]).all(), name
    assert tasks.task_classes.tolist() == [[True, False, True], [False, True, True]]
    assert TaskSet.from_folder(str(folder), size=(4, 6), test_size=1).fingerprint == tasks.fingerprint


def test_files_images_and_arrays_are_encoded_alike(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (10, 12, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "image.png")
    path, image = tmp_path / "image.png", Image.fromarray(pixels)
    for channels in (1, 3):
        encoder = ImageEncoder((5, 4), channels)
        expected = image.convert("L" if channels == 1 else "RGB").resize((4, 5), Image.Resampling.LANCZOS)
        for examples in (path, str(path), image, [path], [str(path)], [image], [pixels], pixels[None]):
            encoded = encoder.encode(examples)
            assert encoded.shape == (1, 5, 4, channels)
            assert (encoded == np.asarray(expected).reshape(1, 5, 4, channels)).all()
        assert encoder.encode([path, image, pixels]).shape == (3, 5, 4, channels)
        assert encoder.encode([]).shape == (0, 5, 4, channels)
        assert ImageEncoder.from_description(json.loads(json.dumps(encoder.describe()))) == encoder


def test_what_is_in_a_file_is_seen_as_people_see_it(tmp_path: Path) -> None:
    clear = Image.new("RGBA", (8, 8), (0, 0, 0, 0))  # transparent black
    clear.paste((0, 0, 0, 255), (0, 0, 4, 8))  # and black ink on the left
    assert ImageEncoder((1, 2), 1).encode([clear]).ravel().tolist() == pytest.approx([0, 255], abs=40)
    palette = Image.new("RGB", (4, 4), "red").quantize(2)
    assert ImageEncoder((1, 1)).encode([palette]).ravel().tolist() == [255, 0, 0]
    deep = Image.fromarray(np.full((4, 4), 200 * 256 + 7, np.uint16))
    deep.save(tmp_path / "deep.png")
    assert ImageEncoder((1, 1), 1).encode(tmp_path / "deep.png").item() == 200
    turned = Image.new("RGB", (8, 4), "white")
    turned.paste("black", (0, 0, 4, 4))
    exif = turned.getexif()
    exif[0x0112] = 6  # show it a quarter turn clockwise
    turned.save(tmp_path / "turned.png", exif=exif)
    top, bottom = ImageEncoder((2, 1), 1).encode(tmp_path / "turned.png").ravel()
    assert top < 30 < 225 < bottom


def truncate(folder: Path) -> None:
    path = folder / "paint" / "red" / "2.png"
    path.write_bytes(path.read_bytes()[:40])


@pytest.mark.parametrize(
    ("harm", "parts"),
    [
        (truncate, ["cannot read", "paint/red/2.png"]),
        (lambda folder: (folder / "paint/red/5.png").write_text("text"), ["cannot read", "paint/red/5.png"]),
        (lambda folder: (folder / "paint/red/notes.txt").write_text("text"), ["paint/red/notes.txt", "not an image"]),
        (lambda folder: (folder / "paint/red/more").mkdir(), ["paint/red/more", "not an image"]),
        (lambda folder: write(folder / "paint/3.png", "red"), ["paint", "one folder per class", "3.png"]),
        (lambda folder: write(folder / "3.png", "red"), ["one folder per task", "3.png"]),
        (lambda folder: (folder / "new").mkdir(), ["new is empty", "one folder per class"]),
        (lambda folder: (folder / "new/red").mkdir(parents=True), ["task 'new'", "no images"]),
    ],
)
def test_what_is_wrong_in_a_folder_is_named(folder: Path, harm: Callable[[Path], object], parts: list[str]) -> None:
    harm(folder)
    with pytest.raises(DataError) as caught:
        TaskSet.from_folder(folder)
    message = str(caught.value)
    assert all(part in message for part in parts), message
    assert "\n" not in message


@pytest.mark.usefixtures("without_types")
@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda: TaskSet.from_folder("/nowhere/at/all"), ["/nowhere/at/all", "not a folder"]),
        (lambda: ImageEncoder((28,)), ["size", "(28,)"]),
        (lambda: ImageEncoder((0, 5)), ["size", "0"]),
        (lambda: ImageEncoder(28), ["size", "28"]),
        (lambda: ImageEncoder(channels=4), ["channels", "4"]),
        (lambda: ImageEncoder().encode(["/nowhere.png"]), ["/nowhere.png", "No such file"]),
        (lambda: ImageEncoder().encode([np.zeros((4, 4))]), ["uint8", "float64"]),
        (lambda: ImageEncoder().encode([np.zeros((4, 4, 2), np.uint8)]), ["uint8", "(4, 4, 2)"]),
        (lambda: ImageEncoder().encode(np.zeros((4, 4, 3), np.uint8)), ["4 axes", "(4, 4, 3)"]),
        (lambda: ImageEncoder().encode([None]), ["path", "NoneType"]),
        (lambda: ImageEncoder().encode([Image.new("F", (4, 4))]), ["32 bits", "F"]),
        (lambda: ImageEncoder.from_description({"encoder": "frame"}), ["description", "ImageEncoder"]),
    ],
)
def test_bad_images_get_one_sentence(call: Any, parts: list[str]) -> None:
    with pytest.raises((InputError, DataError)) as caught:
        call()
    message = str(caught.value)
    assert all(part in message for part in parts), message
    assert "\n" not in message
    assert len(message) < 300
