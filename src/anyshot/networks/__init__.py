"""Plain networks, each for one example; `jax.vmap` makes batches of them."""

from typing import TYPE_CHECKING

from anyshot.lazy_imports import lazy_getattr
from anyshot.networks.catalogue import NETWORKS, register

if TYPE_CHECKING:
    from anyshot.networks.conv4 import Conv4
    from anyshot.networks.convolution import convolve
    from anyshot.networks.factory import NetworkFactory, make_network
    from anyshot.networks.layers import Convolution, Linear, leaky_relu, max_pool
    from anyshot.networks.memory import Memory
    from anyshot.networks.mlp import MLP
    from anyshot.networks.pose import PoseRegressor
    from anyshot.networks.siamese import Siamese
    from anyshot.networks.stacked import StackedPairs

__all__ = [
    "MLP",
    "NETWORKS",
    "Conv4",
    "Convolution",
    "Linear",
    "Memory",
    "NetworkFactory",
    "PoseRegressor",
    "Siamese",
    "StackedPairs",
    "convolve",
    "leaky_relu",
    "make_network",
    "max_pool",
    "register",
]

__getattr__ = lazy_getattr(
    __name__,
    {
        "conv4": ("Conv4",),
        "convolution": ("convolve",),
        "factory": ("NetworkFactory", "make_network"),
        "layers": ("Convolution", "Linear", "leaky_relu", "max_pool"),
        "memory": ("Memory",),
        "mlp": ("MLP",),
        "pose": ("PoseRegressor",),
        "siamese": ("Siamese",),
        "stacked": ("StackedPairs",),
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
