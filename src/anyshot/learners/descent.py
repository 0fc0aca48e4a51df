"""One step of an optimiser on the arrays that are learned."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import optax  # type: ignore[import-untyped]
from jaxtyping import PyTree


def optimiser_state(optimiser: optax.GradientTransformation, learned: PyTree[Any]) -> PyTree[Any]:
    """The optimiser's state before the first step."""
    return optimiser.init(eqx.filter(learned, eqx.is_inexact_array))


def descended(
    optimiser: optax.GradientTransformation, gradient: PyTree[Any], state: PyTree[Any], learned: PyTree[Any]
) -> tuple[PyTree[Any], PyTree[Any]]:
    """What is learned, and the optimiser's state, after a step against the gradient."""
    changes, state = optimiser.update(gradient, state, eqx.filter(learned, eqx.is_inexact_array))
    return eqx.apply_updates(learned, changes), state
