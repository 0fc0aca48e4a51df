"""Step-size rules: how large an inner gradient step a given number of shots deserves."""

from typing import TYPE_CHECKING

from anyshot.lazy_imports import lazy_getattr
from anyshot.rates.catalogue import RATES, register

if TYPE_CHECKING:
    from anyshot.rates.closed_form import ClosedForm
    from anyshot.rates.constant import Constant
    from anyshot.rates.learned_constant import LearnedConstant
    from anyshot.rates.per_parameter import PerParameter
    from anyshot.rates.per_shot import PerShot
    from anyshot.rates.rule import Rate
    from anyshot.rates.scaled import Scaled
    from anyshot.rates.scaled_per_parameter import ScaledPerParameter

__all__ = [
    "RATES",
    "ClosedForm",
    "Constant",
    "LearnedConstant",
    "PerParameter",
    "PerShot",
    "Rate",
    "Scaled",
    "ScaledPerParameter",
    "register",
]

__getattr__ = lazy_getattr(
    __name__,
    {
        "closed_form": ("ClosedForm",),
        "constant": ("Constant",),
        "learned_constant": ("LearnedConstant",),
        "per_parameter": ("PerParameter",),
        "per_shot": ("PerShot",),
        "rule": ("Rate",),
        "scaled": ("Scaled",),
        "scaled_per_parameter": ("ScaledPerParameter",),
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
