"""The networks of the benchmark as lists of layers, with leaky ReLU between them and a linear head to the classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

SLOPE = 0.01  # of the leaky ReLU, as in PyTorch and JAX


@dataclass(frozen=True)
class Layer:
    """A 3x3 convolution, shape (3, 3, in, out), or a linear layer, (in, out), and how often an example uses it."""

    shape: tuple[int, ...]
    places: int = 1


@dataclass(frozen=True)
class Network:
    """What every implementation builds."""

    kind: str
    shape: tuple[int, ...]  # of an example
    classes: int
    channels: int
    layers: dict[str, Layer]
    inner_rate: float


def conv4(size: int = 28, channels: int = 32) -> Network:
    """Four convolutions of stride 2 on colour images."""
    return Network("conv4", (size, size, 3), 10, channels, _halving(size, 3, channels, 10), 0.1)


def pose(size: int = 128, channels: int = 32) -> Network:
    """The same on grey images, of which every 2x2 pixels are averaged first."""
    return Network("pose", (size, size), 10, channels, _halving((size + 1) // 2, 1, channels, 10), 0.03)


def siamese(size: int = 84, channels: int = 64) -> Network:
    """Two convolutions, pool, two convolutions, pool, on each image of a pair; both embeddings joined."""
    sides, fans = (size, size, size // 2, size // 2), (3, channels, channels, channels)
    layers = {
        f"conv{k}": Layer((3, 3, fan, channels), 2 * side * side)
        for k, (side, fan) in enumerate(zip(sides, fans, strict=True))
    }
    head = Layer((2 * (size // 4) ** 2 * channels, 2))
    return Network("siamese", (2, size, size, 3), 2, channels, layers | {"head": head}, 0.03)


def mlp(size: int = 28, channels: int = 128) -> Network:
    """Two hidden layers on flattened colour images."""
    sizes = (3 * size * size, channels, channels, 10)
    layers = {"head" if o == 10 else f"linear{k}": Layer((i, o)) for k, (i, o) in enumerate(pairwise(sizes))}
    return Network("mlp", (size, size, 3), 10, channels, layers, 0.03)


def _halving(side: int, fan: int, channels: int, classes: int) -> dict[str, Layer]:
    layers = {}
    for k in range(4):
        side = (side + 1) // 2
        layers[f"conv{k}"] = Layer((3, 3, fan, channels), side * side)
        fan = channels
    return layers | {"head": Layer((side * side * channels, classes))}


NETWORKS: dict[str, Callable[..., Network]] = {"conv4": conv4, "pose": pose, "siamese": siamese, "mlp": mlp}
