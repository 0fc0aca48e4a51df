"""From a method's name to the learner."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from jaxtyping import PyTree

from anyshot.errors import InputError
from anyshot.learners.ftml import FTML
from anyshot.learners.learner import Learner
from anyshot.learners.names import LEARNERS, METHODS
from anyshot.learners.recipe import Recipe
from anyshot.rates import Rate


def make_learner(name: str, recipe: Recipe, example: tuple[Any, Any]) -> Learner:
    """The method of this name.

    Args:
        name: one of `LEARNERS`.
        recipe: network, loss and numbers.
        example: shape and dtype of one input and label.
    """
    if name not in METHODS:
        raise InputError(f"there is no learner {name!r}; there are {', '.join(LEARNERS)}")
    recipe = replace(recipe, example=example)
    module, kind_name = METHODS[name].place.split(":")
    kind = getattr(import_module(f"anyshot.{module}"), kind_name)
    return FTML(recipe, _Rule(kind, recipe)) if issubclass(kind, Rate) else kind(recipe)


@dataclass(frozen=True)
class _Rule:
    """Makes the rate rule; equal for equal recipes, so that compiled functions are found again."""

    kind: type[Rate]
    recipe: Recipe

    def __call__(self, model: PyTree[Any]) -> Rate:
        recipe = self.recipe
        return self.kind.initial(model, inner_rate=recipe.inner_rate, eta=recipe.eta, max_shots=recipe.max_shots)
