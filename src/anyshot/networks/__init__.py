"""Plain networks, each for one example; `jax.vmap` makes batches of them."""

from anyshot.networks.conv4 import Conv4
from anyshot.networks.convolution import convolve
from anyshot.networks.layers import Convolution, Linear, leaky_relu, max_pool
from anyshot.networks.memory import Memory
from anyshot.networks.mlp import MLP
from anyshot.networks.pose import PoseRegressor
from anyshot.networks.siamese import Siamese

__all__ = [
    "MLP",
    "Conv4",
    "Convolution",
    "Linear",
    "Memory",
    "PoseRegressor",
    "Siamese",
    "convolve",
    "leaky_relu",
    "max_pool",
]
