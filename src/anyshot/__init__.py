"""anyshot: learn a sequence of related tasks with as few labels as possible.

The numerical heart: step-size rules that know the number of shots (`anyshot.rates`), networks whose derivatives are
batched matrix products (`anyshot.networks`), adaptation and the meta-objective (`anyshot.adaptation`).
"""

from anyshot.adaptation import (
    Episodes,
    GaussianWeights,
    MetaObjective,
    Shots,
    Update,
    cross_entropy,
    squared_error,
    stack_tasks,
)
from anyshot.devices import compiler_options, use_cpu_cores
from anyshot.inputs import InputError
from anyshot.rates import ClosedForm, Constant, PerParameter, PerShot, Rate, Scaled, ScaledPerParameter

__version__ = "0.1.0"

__all__ = [
    "ClosedForm",
    "Constant",
    "Episodes",
    "GaussianWeights",
    "InputError",
    "MetaObjective",
    "PerParameter",
    "PerShot",
    "Rate",
    "Scaled",
    "ScaledPerParameter",
    "Shots",
    "Update",
    "compiler_options",
    "cross_entropy",
    "squared_error",
    "stack_tasks",
    "use_cpu_cores",
]
