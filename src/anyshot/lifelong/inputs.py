"""Inputs as people have them, made into arrays of one shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from anyshot.errors import InputError
from anyshot.inputs import check_finite, check_numeric
from anyshot.tasks.encoders import Encoder
from anyshot.tasks.frames import FrameEncoder
from anyshot.tasks.images import ImageEncoder

DESCRIBED: dict[str, Any] = {"frame": FrameEncoder, "images": ImageEncoder}


def choose_encoder(x: Any) -> Encoder | None:
    """The encoder for inputs of this kind: one fitted to them for a DataFrame, None for arrays."""
    return FrameEncoder.fit(x) if isinstance(x, pd.DataFrame) else None


def encoder_from(description: dict[str, Any]) -> Encoder:
    """The encoder that a description stands for; a function of the user's own is not stored, and refused."""
    kind = DESCRIBED.get(description.get("encoder", ""))
    if kind is None:
        raise InputError(
            f"the folder was made with the encoder {description.get('name', description)!r}, which it cannot hold; "
            "give it again as encoder=..."
        )
    return kind.from_description(description)


def encode_inputs(x: Any, encoder: Encoder | None, shape: tuple[int, ...] | None, dtype: str | None) -> np.ndarray:
    """One float32 or uint8 array per input.

    Args:
        x: what the user gave: an array with one row per input, or anything that the encoder takes.
        encoder: None for arrays.
        shape: that inputs have had so far; None if this is the first.
        dtype: that they have had so far.
    """
    if encoder is None and isinstance(x, pd.DataFrame):
        raise InputError("x is a DataFrame, but inputs have been arrays so far; give arrays of the same shape")
    rows = encoder.encode(x) if encoder is not None else np.asarray(x)
    if encoder is None:
        check_numeric("x", rows)
        if rows.ndim < 2:
            raise InputError(
                f"x must have one row per input and its numbers behind, got shape {rows.shape}; give x[None] for a "
                "single input"
            )
    rows = rows if rows.dtype == np.uint8 else rows.astype(np.float32)
    check_finite("x", rows)
    if shape is not None and rows.shape[1:] != shape:
        raise InputError(f"x must have one row of shape {shape} for each input, got shape {rows.shape}")
    if dtype is not None and rows.dtype != np.dtype(dtype):
        raise InputError(f"x must be {dtype} as before, got {rows.dtype}; images of 0..255 are not numbers of 0..1")
    return rows
