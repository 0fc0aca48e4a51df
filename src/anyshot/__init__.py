"""anyshot: learn a sequence of related tasks with as few labels as possible.

The numerical heart: step-size rules that know the number of shots (`anyshot.rates`), networks whose derivatives are
batched matrix products (`anyshot.networks`), adaptation and the meta-objective (`anyshot.adaptation`). What is learned
from: task sets as arrays, the same on every machine (`anyshot.tasks`).
"""

from typing import TYPE_CHECKING

from anyshot.lazily import lazily

if TYPE_CHECKING:
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
    from anyshot.errors import DataError, InputError
    from anyshot.rates import ClosedForm, Constant, PerParameter, PerShot, Rate, Scaled, ScaledPerParameter
    from anyshot.tasks import TaskSet, load_tasks

__version__ = "0.1.0"

__all__ = [
    "ClosedForm",
    "Constant",
    "DataError",
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
    "TaskSet",
    "Update",
    "compiler_options",
    "cross_entropy",
    "load_tasks",
    "squared_error",
    "stack_tasks",
    "use_cpu_cores",
]


__getattr__ = lazily(
    __name__,
    {
        "adaptation": (
            "Episodes",
            "GaussianWeights",
            "MetaObjective",
            "Shots",
            "Update",
            "cross_entropy",
            "squared_error",
            "stack_tasks",
        ),
        "devices": ("compiler_options", "use_cpu_cores"),
        "errors": ("DataError", "InputError"),
        "rates": ("ClosedForm", "Constant", "PerParameter", "PerShot", "Rate", "Scaled", "ScaledPerParameter"),
        "tasks": ("TaskSet", "load_tasks"),
    },
)
