"""The step-size rules by name. Listing them does not import JAX."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyshot.errors import InputError
from anyshot.registry import Entry, Registry

if TYPE_CHECKING:
    from anyshot.rates.rule import Rate

RATES = Registry(
    "rate",
    "anyshot.rates",
    {
        "constant": Entry("one fixed step size (MAML, FTML)", "anyshot.rates.constant:Constant"),
        "learned-constant": Entry(
            "one learned step size for all numbers of shots", "anyshot.rates.learned_constant:LearnedConstant"
        ),
        "per-shot": Entry(
            "a learned step size for each number of shots (MAML-VL, FTML-VL)", "anyshot.rates.per_shot:PerShot"
        ),
        "scaled": Entry(
            "beta (1 - 1/(1 + eta s)) with beta and eta learned (MAML-VS, FTML-VS)", "anyshot.rates.scaled:Scaled"
        ),
        "per-parameter": Entry(
            "a learned step size for each parameter (Meta-SGD)", "anyshot.rates.per_parameter:PerParameter"
        ),
        "scaled-per-parameter": Entry(
            "the scaled rule with a beta for each parameter",
            "anyshot.rates.scaled_per_parameter:ScaledPerParameter",
        ),
        "closed-form": Entry("the scaled rule with eta measured by theorem 1", "anyshot.rates.closed_form:ClosedForm"),
    },
)


def register(name: str, target: type[Rate] | str, summary: str = "") -> None:
    """Make a step-size rule available by name.

    Args:
        name: not one that is taken.
        target: a subclass of `Rate` with the class method `initial`, or "module:name" to import it from when it is
            first used.
        summary: what it is, in one line; by default the first line of its docstring.
    """
    if not isinstance(target, str) and not (isinstance(target, type) and hasattr(target, "initial")):
        raise InputError(f"target must be a subclass of anyshot.Rate, or 'module:name' of one, got {target!r}")
    RATES.register(name, target, summary)
