"""The networks by name: what each is for and how the settings make it, without importing JAX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyshot.runs.settings import Network

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Kind:
    """One kind of network.

    Attributes:
        told: what it is for.
        dimensions: that one example must have.
        place: its class, as module:class of `anyshot.networks`.
        arguments: of the class but the key, from the settings, the shape of an example and the number of outputs.
    """

    told: str
    dimensions: int
    place: str
    arguments: Callable[[Network, Shape, int], tuple[Any, ...]]

    def made(self, network: Network, shape: Shape, outputs: int, key: Any) -> Any:
        """A model with random weights.

        >>> import jax
        >>> from anyshot.runs.settings import Network
        >>> def made(kind, *shape):
        ...     def output(key, x):
        ...         return NETWORKS[kind].made(Network(kind), shape, 3, key)(x)
        ...     return jax.eval_shape(output, jax.random.key(0), jax.ShapeDtypeStruct(shape, "uint8")).shape
        >>> print(made("conv4", 28, 28, 3), made("siamese", 2, 84, 84, 3), made("pose", 64, 64), made("mlp", 5))
        (3,) (3,) (3,) (3,)
        """
        module, name = self.place.split(":")
        model = getattr(import_module(f"anyshot.networks.{module}"), name)
        return model(*self.arguments(network, shape, outputs), key=key)


NETWORKS = {
    "conv4": Kind("images", 3, "conv4:Conv4", lambda n, shape, out: (shape, out, n.channels, n.stride)),
    "siamese": Kind("pairs of images", 4, "siamese:Siamese", lambda n, shape, out: (shape[1:], out, n.channels)),
    "pose": Kind(
        "large grey images", 2, "pose:PoseRegressor", lambda n, shape, out: (shape[0], out, n.channels, n.stride)
    ),
    "mlp": Kind("vectors", 1, "mlp:MLP", lambda n, shape, out: ((shape[0], *n.hidden, out),)),
}
