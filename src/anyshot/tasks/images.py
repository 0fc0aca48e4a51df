"""Image files as arrays of one size, and folders `task/class/image` of them."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps

from anyshot.errors import DataError, InputError
from anyshot.limits import check_whole

MOST_PIXELS = 4096  # of a side
HIDDEN = ("thumbs.db", "desktop.ini")  # what Windows adds to folders; elsewhere hidden names begin with a dot


@dataclass(frozen=True)
class ImageEncoder:
    """Brings images to one size, uint8. Proportions are not kept, and transparent pixels become white.

    Args:
        size: height and width.
        channels: 3 for colour, 1 for grey.

    >>> from PIL import Image
    >>> red = Image.new("RGB", (50, 40), "red")
    >>> print(ImageEncoder((2, 3)).encode([red]).shape, ImageEncoder((1, 1), channels=1).encode([red]).ravel())
    (1, 2, 3, 3) [76]
    """

    size: tuple[int, int] = (28, 28)
    channels: int = 3

    def __post_init__(self) -> None:
        if not isinstance(self.size, tuple) or len(self.size) != 2:
            raise InputError(f"size must be (height, width), such as (28, 28), got {self.size!r}")
        for side in self.size:
            check_whole("size", side, 1, MOST_PIXELS)
        if self.channels not in (1, 3):
            raise InputError(f"channels must be 3 for colour or 1 for grey, got {self.channels!r}")

    def encode(self, examples: Any) -> UInt8[np.ndarray, "n height width channels"]:
        """One array per image.

        Args:
            examples: paths of files, Pillow images or uint8 arrays (height, width) or (height, width, channels), in a
                list; or a single path or image; or one array with four axes.
        """
        single = isinstance(examples, (str, Path, Image.Image))
        if isinstance(examples, np.ndarray) and examples.ndim != 4:
            raise InputError(f"images in one array need 4 axes (n, height, width, channels), got {examples.shape}")
        with ThreadPoolExecutor() as threads:  # Pillow decodes and resizes without the interpreter's lock
            arrays = list(threads.map(self._encode_one, [examples] if single else list(examples)))
        return np.stack(arrays) if arrays else np.zeros((0, *self.size, self.channels), np.uint8)

    def describe(self) -> dict[str, Any]:
        """The size and the channels, in JSON values."""
        return {"encoder": "images", "size": list(self.size), "channels": self.channels}

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> ImageEncoder:
        """The encoder that `describe` described."""
        if description.get("encoder") != "images" or not {"size", "channels"} <= description.keys():
            raise InputError(f"description must be that of an ImageEncoder, got {str(description)[:200]}")
        return cls(tuple(description["size"]), description["channels"])

    def _encode_one(self, example: Any) -> UInt8[np.ndarray, "height width channels"]:
        if isinstance(example, (str, Path)):
            try:
                with Image.open(example) as image:
                    return self._resize(image, str(example))
            except InputError:
                raise
            # Damage raises many types: OSError, SyntaxError, ValueError, struct.error, DecompressionBombError.
            except Exception as error:
                raise DataError(f"cannot read {example} as an image ({error}); replace or remove it") from error
        if isinstance(example, Image.Image):
            return self._resize(example, "an image")
        array = np.asarray(example)
        channels = array.shape[2:] in ((), (1,), (3,), (4,))
        if array.dtype != np.uint8 or array.ndim not in (2, 3) or not channels or not array.size:
            raise InputError(
                f"an image must be a path, a Pillow image or a uint8 array (height, width, 3) or (height, width), got "
                f"{type(example).__name__} of {array.dtype} and shape {array.shape}"
            )
        return self._resize(Image.fromarray(array[..., 0] if array.shape[2:] == (1,) else array), "an array")

    def _resize(self, image: Image.Image, name: str) -> UInt8[np.ndarray, "height width channels"]:
        image = ImageOps.exif_transpose(image)  # cameras write how they were held
        if image.mode.startswith("I;16"):
            image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
        if image.mode in ("I", "F"):
            raise InputError(f"{name} has pixels of 32 bits (mode {image.mode}); save it with 8 or 16 bits")
        if image.has_transparency_data:
            image = image.convert("RGBA")
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
        height, width = self.size
        # Colours first: pixels of a palette cannot be averaged.
        image = image.convert("RGB" if self.channels == 3 else "L")
        return np.asarray(image.resize((width, height), Image.Resampling.LANCZOS)).reshape(height, width, self.channels)


def find_images(path: Path) -> dict[str, tuple[list[Path], list[str]]]:
    """The image files and their classes of each task in `path/task/class/image`, in the order of their names.

    Hidden files and folders are skipped. Any other thing that is not where this layout has it is refused.
    """
    endings = {ending for ending, kind in Image.registered_extensions().items() if kind in Image.OPEN}
    tasks: dict[str, tuple[list[Path], list[str]]] = {}
    for task in _list_folders(path, "path", "one folder per task"):
        files: list[Path] = []
        classes: list[str] = []
        for of_class in _list_folders(task, f"task {task.name!r}", "one folder per class"):
            images = _list(of_class)
            for image in images:
                if not image.is_file() or image.suffix.lower() not in endings:
                    raise DataError(f"{image} is not an image file, such as .png or .jpg; remove or hide it")
            files += images
            classes += [of_class.name] * len(images)
        if not files:
            raise DataError(f"task {task.name!r} has no images: {task} must hold folders of images, one per class")
        tasks[task.name] = (files, classes)
    return tasks


def _list_folders(folder: Path, name: str, wanted: str) -> list[Path]:
    if not folder.is_dir():
        raise DataError(f"{name} must be a folder with {wanted}, but {folder} is not a folder")
    found = _list(folder)
    for file in found:
        if not file.is_dir():
            raise DataError(f"{folder} must hold {wanted}, but {file.name} is a file; remove or hide it")
    if not found:
        raise DataError(f"{folder} is empty; it must hold {wanted}")
    return found


def _list(folder: Path) -> list[Path]:
    try:
        found = sorted(folder.iterdir())
    except OSError as error:
        raise DataError(f"cannot read {folder}: {error.strerror}; make it readable") from error
    return [path for path in found if not path.name.startswith(".") and path.name.lower() not in HIDDEN]
