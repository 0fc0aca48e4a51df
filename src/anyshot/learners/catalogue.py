"""The methods there are, by name, and where in the paper each is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from anyshot.errors import InputError
from anyshot.learners.agem import AGEM
from anyshot.learners.ftml import FTML
from anyshot.learners.learner import Learner
from anyshot.learners.names import LEARNERS
from anyshot.learners.protonet import ProtoNet
from anyshot.learners.recipe import Recipe
from anyshot.learners.toe import TOE
from anyshot.rates import ClosedForm, Constant, PerParameter, PerShot, Rate, Scaled, ScaledPerParameter


@dataclass(frozen=True)
class _Rule:
    """How to make a rate rule, comparable so that compiled functions can be shared."""

    make: Callable[[Recipe, Any], Rate]
    recipe: Recipe

    def __call__(self, model: Any) -> Rate:
        return self.make(self.recipe, model)


def _constant(r: Recipe, model: Any) -> Rate:
    return Constant(r.inner_rate)


def _per_shot(r: Recipe, model: Any) -> Rate:
    return PerShot(r.inner_rate, r.max_shots)


def _scaled(r: Recipe, model: Any) -> Rate:
    return Scaled(r.inner_rate, r.eta, r.max_shots)


def _per_parameter(r: Recipe, model: Any) -> Rate:
    return PerParameter(model, r.inner_rate)


def _scaled_per_parameter(r: Recipe, model: Any) -> Rate:
    return ScaledPerParameter(model, r.inner_rate, r.eta, r.max_shots)


def _closed_form(r: Recipe, model: Any) -> Rate:
    return ClosedForm(r.inner_rate, max_shots=r.max_shots)


RULES = {
    "ftml": _constant,
    "ftml-vl": _per_shot,
    "ftml-vs": _scaled,
    "ftml+meta-sgd": _per_parameter,
    "ftml-vs+meta-sgd": _scaled_per_parameter,
    "ftml-vs-closed-form": _closed_form,
}


def make_learner(name: str, recipe: Recipe, example: tuple[Any, Any]) -> Learner:
    """The method of this name.

    Args:
        name: one of `LEARNERS`.
        recipe: network, loss and numbers.
        example: shape and dtype of one input and label.
    """
    if name in RULES:
        return FTML(recipe, _Rule(RULES[name], recipe))
    if name == "toe":
        return TOE(recipe)
    if name == "a-gem":
        return AGEM(recipe)
    if name == "protonet":
        return ProtoNet(recipe, example)
    raise InputError(f"there is no learner {name!r}; there are {', '.join(LEARNERS)}")
