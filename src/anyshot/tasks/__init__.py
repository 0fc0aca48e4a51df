"""Task sets as arrays: what they are, where their data comes from, and draws from them."""

from typing import TYPE_CHECKING

from anyshot.lazily import lazily

if TYPE_CHECKING:
    from anyshot.tasks.load import load_tasks
    from anyshot.tasks.pairs import PairTasks
    from anyshot.tasks.taskset import TaskSet
    from anyshot.tasks.ways import ClassTasks

__all__ = ["ClassTasks", "PairTasks", "TaskSet", "load_tasks"]

__getattr__ = lazily(
    __name__,
    {"load": ("load_tasks",), "pairs": ("PairTasks",), "taskset": ("TaskSet",), "ways": ("ClassTasks",)},
)
