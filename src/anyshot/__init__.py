"""anyshot: learn a sequence of related tasks with as few labels as possible.

The usual way: tasks (`load_tasks`, `TaskSet.from_arrays`), a protocol (`OnlineProtocol`, `OfflineProtocol`), an
`Experiment` of both with a learner, and `run` it. `load_run` opens a run again, `read_runs` gives a table of many.

JAX is imported when the first name that needs it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from anyshot.version import __version__

if TYPE_CHECKING:
    from anyshot.adaptation import GaussianWeights, MetaObjective, Update, cross_entropy, squared_error
    from anyshot.checks import LearnerError, check_learner
    from anyshot.devices import compiler_options, use_cpu_cores
    from anyshot.errors import DataError, InputError, RunError
    from anyshot.learners import Learner
    from anyshot.lifelong import Lifelong, TaskClassifier, TaskRegressor
    from anyshot.offline import OfflineProtocol
    from anyshot.online import OnlineProtocol
    from anyshot.rates import Rate
    from anyshot.report import compare, write_report
    from anyshot.runs import Experiment, Run, load_run, make_experiment, make_learner, read_runs, run
    from anyshot.shots import Episodes, Shots, stack_tasks
    from anyshot.sweeps import sweep
    from anyshot.tasks import StoredTasks, TaskSet, load_tasks, write_tasks


_PARTS = {
    "adaptation": ("GaussianWeights", "MetaObjective", "Update", "cross_entropy", "squared_error"),
    "checks": ("LearnerError", "check_learner"),
    "devices": ("compiler_options", "use_cpu_cores"),
    "errors": ("DataError", "InputError", "RunError"),
    "learners": ("Learner",),
    "lifelong": ("Lifelong", "TaskClassifier", "TaskRegressor"),
    "offline": ("OfflineProtocol",),
    "online": ("OnlineProtocol",),
    "rates": ("Rate",),
    "report": ("compare", "write_report"),
    "runs": ("Experiment", "Run", "load_run", "make_experiment", "make_learner", "read_runs", "run"),
    "shots": ("Episodes", "Shots", "stack_tasks"),
    "sweeps": ("sweep",),
    "tasks": ("StoredTasks", "TaskSet", "load_tasks", "write_tasks"),
}
_PLACES = {name: part for part, names in _PARTS.items() for name in names}
_PACKAGES = (
    "adaptation",
    "checks",
    "learners",
    "lifelong",
    "networks",
    "offline",
    "online",
    "rates",
    "report",
    "runs",
    "sweeps",
    "tasks",
)

__all__ = [
    "DataError",
    "Episodes",
    "Experiment",
    "GaussianWeights",
    "InputError",
    "Learner",
    "LearnerError",
    "Lifelong",
    "MetaObjective",
    "OfflineProtocol",
    "OnlineProtocol",
    "Rate",
    "Run",
    "RunError",
    "Shots",
    "StoredTasks",
    "TaskClassifier",
    "TaskRegressor",
    "TaskSet",
    "Update",
    "__version__",
    "check_learner",
    "compare",
    "compiler_options",
    "cross_entropy",
    "load_run",
    "load_tasks",
    "make_experiment",
    "make_learner",
    "read_runs",
    "run",
    "squared_error",
    "stack_tasks",
    "sweep",
    "use_cpu_cores",
    "write_report",
    "write_tasks",
]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(f"anyshot.{_PLACES[name]}"), name)
    if name in _PACKAGES:
        return import_module(f"anyshot.{name}")
    raise AttributeError(f"module 'anyshot' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_PACKAGES})
