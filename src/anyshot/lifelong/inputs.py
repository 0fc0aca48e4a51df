"""Inputs as people have them, made into arrays of one shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from anyshot.errors import InputError
from anyshot.inputs import check_finite, check_numeric
from anyshot.tasks.encoders import Encoder
from anyshot.tasks.frames import FrameEncoder
from anyshot.tasks.images import ImageEncoder

LARGEST = 1e10  # of numbers in inputs; with more, Gram matrices in float32 cannot be decomposed
DESCRIBED: dict[str, Any] = {"frame": FrameEncoder, "images": ImageEncoder}


@dataclass(frozen=True, eq=False)
class Inputs:
    """What inputs are.

    Attributes:
        encoder: makes arrays of them; None if they are arrays.
        shape: of one input; None while that is not known.
        dtype: of the arrays; None while that is not known.
    """

    encoder: Encoder | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None

    def encode(self, x: Any) -> np.ndarray:
        """One float32 or uint8 array per input.

        Args:
            x: what the user gave: an array with one row per input, or anything that the encoder takes.
        """
        rows = _to_array(x) if self.encoder is None else _apply(self.encoder, x)
        if not all(rows.shape[1:]):
            raise InputError(f"x must have at least one number in each row, got shape {rows.shape}")
        if rows.dtype != np.uint8:
            rows = _to_float32(rows)
        if self.shape is not None and rows.shape[1:] != self.shape:
            raise InputError(f"x must have one row of shape {self.shape} for each input, got shape {rows.shape}")
        if self.dtype is not None and rows.dtype != np.dtype(self.dtype):
            raise InputError(
                f"x must be {self.dtype} as before, got {rows.dtype}; images of 0..255 are not numbers of 0..1"
            )
        return rows


def decide_inputs(x: Any, encoder: Encoder | None) -> tuple[np.ndarray, Inputs]:
    """The first inputs as arrays, and what they say about all that follow.

    Args:
        x: what the user gave.
        encoder: that the user chose; by default one fitted to x for a DataFrame, and none for arrays.
    """
    if encoder is None and isinstance(x, pd.DataFrame):
        encoder = FrameEncoder.fit(x, name="x")
    rows = Inputs(encoder).encode(x)
    return rows, Inputs(encoder, rows.shape[1:], rows.dtype.name)


def encoder_from(description: dict[str, Any]) -> Encoder:
    """The encoder that a description stands for; a function of the user's own is not stored, and refused."""
    kind = DESCRIBED.get(description.get("encoder", ""))
    if kind is None:
        raise InputError(
            f"the folder was made with the encoder {description.get('name', description)!r}, which it cannot hold; "
            "give it again as encoder=..."
        )
    return kind.from_description(description)


def _apply(encoder: Encoder, x: Any) -> np.ndarray:
    if not isinstance(encoder, FrameEncoder):
        return encoder.encode(x)
    if not isinstance(x, pd.DataFrame):
        given = "an array" if isinstance(x, np.ndarray) else f"an object of type {type(x).__name__}"
        raise InputError(f"x must be a DataFrame as before, got {given}")
    return encoder.encode(x, "x")


def _to_array(x: Any) -> np.ndarray:
    if isinstance(x, pd.DataFrame):
        raise InputError("x is a DataFrame, but inputs have been arrays so far; give arrays of the same shape")
    try:
        rows = np.asarray(x)
    except ValueError as error:
        raise InputError("x has rows of different shapes; give an array with one row for each input") from error
    check_numeric("x", rows)
    if rows.ndim < 2:
        single = "; give x[None] for a single input" if rows.ndim == 1 else ""
        raise InputError(f"x must be an array with one row for each input, got shape {rows.shape}{single}")
    return rows


def _to_float32(rows: np.ndarray) -> np.ndarray:
    check_finite("x", rows)
    if len(wrong := np.argwhere(np.abs(rows.astype(np.float64)) > LARGEST)):
        where = tuple(int(place) for place in wrong[0])
        raise InputError(
            f"x must have numbers of at most {LARGEST:g}, got {rows[where]:g} at index {where}; "
            "divide them so that most are between -1 and 1"
        )
    return rows.astype(np.float32)
