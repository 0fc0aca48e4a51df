"""Task sets: examples of many tasks as arrays, random draws from them, and where their data comes from."""

from typing import TYPE_CHECKING

from anyshot.lazy_imports import lazy_getattr

if TYPE_CHECKING:
    from anyshot.tasks.load import load_tasks
    from anyshot.tasks.pairs import PairTasks
    from anyshot.tasks.taskset import Origin, TaskSet
    from anyshot.tasks.ways import ClassTasks

__all__ = ["ClassTasks", "Origin", "PairTasks", "TaskSet", "load_tasks"]

__getattr__ = lazy_getattr(
    __name__,
    {"load": ("load_tasks",), "pairs": ("PairTasks",), "taskset": ("Origin", "TaskSet"), "ways": ("ClassTasks",)},
)
