"""Networks that are computed for many inputs at once."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
from jaxtyping import Array, Int


class Batched(eqx.Module):
    """A network with a method for many inputs; a single one is a batch of one."""

    @abc.abstractmethod
    def for_shots(self, x: Any, count: Int[Array, ""] | None = None) -> Any:
        """The outputs for many inputs, of which only the first `count` matter: a GPU leaves the others out."""

    def __call__(self, x: Any) -> Any:
        """The output for one input."""
        return self.for_shots(x[None])[0]
