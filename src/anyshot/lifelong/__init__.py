"""Your own tasks: a learner with a durable store of examples."""

from typing import TYPE_CHECKING

from anyshot.lazy_imports import lazy_getattr

if TYPE_CHECKING:
    from anyshot.lifelong.estimators import TaskClassifier, TaskRegressor
    from anyshot.lifelong.lifelong import Lifelong
    from anyshot.lifelong.task import Task

__all__ = ["Lifelong", "Task", "TaskClassifier", "TaskRegressor"]

__getattr__ = lazy_getattr(
    __name__, {"estimators": ("TaskClassifier", "TaskRegressor"), "lifelong": ("Lifelong",), "task": ("Task",)}
)


def __dir__() -> list[str]:
    return sorted(__all__)
