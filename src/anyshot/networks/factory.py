"""From a network's name and settings to what makes models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from anyshot.errors import InputError, first_line
from anyshot.networks.catalogue import NETWORKS, name_for
from anyshot.registry import keyword_defaults

MOST_PARAMETERS = 10**9  # 4 GB in single precision, and an optimiser keeps three times as much


@dataclass(frozen=True)
class NetworkFactory:
    """Makes models of one kind. Equal factories make equal models from equal keys.

    Attributes:
        kind: a name in `NETWORKS`.
        shape: of one input.
        settings: names and values of all settings that the network has.
    """

    kind: str
    shape: tuple[int, ...]
    settings: tuple[tuple[str, Any], ...]

    def __call__(self, key: Key[Array, ""], outputs: int) -> PyTree[Any]:
        """A model with random weights that maps one input to `outputs` numbers."""
        return NETWORKS.find(self.kind).load()(self.shape, outputs, key=key, **dict(self.settings))

    def describe(self) -> dict[str, Any]:
        """Kind and settings in values that JSON has; `make_network` makes the same factory of them.

        >>> make_network("auto", (28, 28, 3)).describe()
        {'kind': 'conv4', 'channels': 32, 'stride': 2, 'precision': 'float32'}
        """
        return {"kind": self.kind, **{name: _thawed(value) for name, value in self.settings}}


def make_network(settings: str | Mapping[str, Any], shape: Sequence[int], *, outputs: int = 1) -> NetworkFactory:
    """Check a network's settings, fill in the defaults, and return what makes its models.

    Args:
        settings: the name of a network, "auto" for the one that suits the shape, or a mapping with "kind" (by default
            "auto") and the settings that differ from the network's defaults.
        shape: of one input.
        outputs: how many outputs the check gives the model. No memory is allocated.

    >>> import jax
    >>> factory = make_network({"kind": "mlp", "hidden": [8]}, (5,))
    >>> model = factory(jax.random.key(0), outputs=3)
    >>> model(jax.numpy.zeros(5)).shape
    (3,)
    """
    given = {"kind": settings} if isinstance(settings, str) else settings
    if not isinstance(given, Mapping):
        raise InputError(f"network must be a name or a mapping such as {{'kind': 'conv4'}}, got {settings!r}")
    size = _checked_shape(shape)
    given = dict(given)
    kind = given.pop("kind", "auto")
    if not isinstance(kind, str):
        raise InputError(f"the kind of a network must be a name, got {kind!r}; there are {', '.join(NETWORKS)}")
    kind = name_for(size) if kind == "auto" else kind
    known = keyword_defaults(NETWORKS.find(kind).load())
    for name in given:
        if name not in known:
            there = f"it has {', '.join(known)}" if known else "it has none"
            raise InputError(f"network {kind} has no setting {name!r}; {there}")
    values = {**known, **given}
    factory = NetworkFactory(kind, size, tuple((name, _frozen(kind, name, values[name])) for name in known))
    _check_makes_model(factory, outputs)
    return factory


def _checked_shape(shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, tuple | list) or not all(isinstance(size, int) and size > 0 for size in shape):
        raise InputError(
            f"shape must be that of one input, whole numbers of at least 1, got {shape!r}; for inputs that are no "
            "arrays give the network as a function (key, outputs) -> model"
        )
    return tuple(shape)


def _check_makes_model(factory: NetworkFactory, outputs: int) -> None:
    """Refuse a network that cannot be made, or not in the memory of any machine."""
    try:
        model = eqx.filter_eval_shape(lambda: factory(jax.random.key(0), outputs))
    except InputError:
        raise
    except Exception as error:
        reason = first_line(error)
        raise InputError(
            f"network {factory.kind} cannot be made for inputs of shape {factory.shape} with "
            f"{dict(factory.settings)}: {reason}"
        ) from error
    if not callable(model):
        raise InputError(f"network {factory.kind} must make a callable PyTree, but made {type(model).__name__}")
    parameters = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(model) if hasattr(leaf, "shape"))
    if parameters > MOST_PARAMETERS:
        raise InputError(
            f"network {factory.kind} would have {parameters:,} parameters for inputs of shape {factory.shape} with "
            f"{dict(factory.settings)}; at most {MOST_PARAMETERS:,} are accepted"
        )


def _frozen(kind: str, name: str, value: Any) -> Any:
    """The value in types that have a hash and that JSON has; anything else is refused."""
    if isinstance(value, list | tuple):
        return tuple(_frozen(kind, name, item) for item in value)
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise InputError(
        f"{name} of network {kind} must be a finite number, a string, a truth value, None or a list of these, "
        f"got {value!r}"
    )


def _thawed(value: Any) -> Any:
    return [_thawed(item) for item in value] if isinstance(value, tuple) else value
