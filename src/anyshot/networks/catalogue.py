"""The networks by name. Listing them does not import JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anyshot.errors import InputError
from anyshot.registry import Entry, Registry

# A target is a function (shape, outputs, *, key, **settings) -> model, where `shape` is that of one input. Its
# keyword-only parameters with defaults are the network's settings.
NETWORKS = Registry(
    "network",
    "anyshot.networks",
    {
        "conv4": Entry("four convolutions, for images (appendix D)", "anyshot.networks.conv4:make_conv4"),
        "siamese": Entry(
            "one trunk for both images, for pairs of images (appendix D.3)", "anyshot.networks.siamese:make_siamese"
        ),
        "stacked": Entry(
            "the layers of siamese on both images stacked along channels", "anyshot.networks.stacked:make_stacked"
        ),
        "pose": Entry("conv4 at half the size, for grey images", "anyshot.networks.pose:make_pose"),
        "mlp": Entry("linear layers, for vectors; it flattens anything else", "anyshot.networks.mlp:make_mlp"),
    },
)


def name_for(shape: Sequence[int]) -> str:
    """The network that "auto" stands for, by the shape of one input.

    >>> name_for((5,)), name_for((64, 64)), name_for((28, 28, 3)), name_for((2, 28, 28, 3))
    ('mlp', 'pose', 'conv4', 'siamese')
    """
    if len(shape) == 4 and shape[0] == 2:
        return "siamese"
    return {2: "pose", 3: "conv4"}.get(len(shape), "mlp")


def register(name: str, target: Callable[..., Any] | str, summary: str = "") -> None:
    """Make a network available by name.

    Args:
        name: not one that is taken.
        target: a function `(shape, outputs, *, key, ...)` that makes a model, a callable PyTree from one input of this
            shape to `outputs` numbers; or "module:name" to import it from when it is first used. Its keyword-only
            parameters with defaults are the network's settings.
        summary: what it is, in one line; by default the first line of its docstring.
    """
    if not isinstance(target, str) and not callable(target):
        raise InputError(f"target must be a function that makes a model, or 'module:name' of one, got {target!r}")
    NETWORKS.register(name, target, summary)
