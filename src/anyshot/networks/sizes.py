"""What sizes the networks accept."""

from __future__ import annotations

from collections.abc import Sequence

from anyshot.errors import InputError
from anyshot.limits import check_whole
from anyshot.networks.catalogue import name_for

PRECISIONS = ("float32", "half")


def check_shape(network: str, shape: Sequence[int], layout: str) -> None:
    """Refuse inputs of another shape, and name the network that takes them.

    >>> check_shape("siamese", (2, 28, 28, 3), "2, height, width, channels")
    """
    parts = layout.split(", ")
    if len(shape) != len(parts) or any(
        part.isdigit() and int(part) != size for part, size in zip(parts, shape, strict=True)
    ):
        raise InputError(
            f"network {network} takes inputs of shape ({layout}), got {tuple(shape)}; use {name_for(shape)}"
        )


def check_convolutions(channels: int, stride: int = 1, precision: str = "float32") -> None:
    """Refuse what convolutions cannot have."""
    check_whole("channels", channels, 1, 4096)
    check_whole("stride", stride, 1, 2)
    check_precision(precision)


def check_precision(precision: str) -> None:
    """Refuse what is no precision of a convolution's products."""
    if precision not in PRECISIONS:
        raise InputError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")
