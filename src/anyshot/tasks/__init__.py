"""Task sets: examples of many tasks as arrays, random draws from them, and where their data comes from."""

from typing import TYPE_CHECKING

from anyshot.lazy_imports import lazy_getattr

if TYPE_CHECKING:
    from anyshot.tasks.encoders import Encoder, FunctionEncoder
    from anyshot.tasks.frames import FrameEncoder
    from anyshot.tasks.images import ImageEncoder
    from anyshot.tasks.labels import ClassNames
    from anyshot.tasks.load import load_tasks
    from anyshot.tasks.pairs import PairTasks
    from anyshot.tasks.stored import StoredTasks
    from anyshot.tasks.storing import write_tasks
    from anyshot.tasks.taskset import Origin, TaskSet
    from anyshot.tasks.ways import ClassTasks

__all__ = [
    "ClassNames",
    "ClassTasks",
    "Encoder",
    "FrameEncoder",
    "FunctionEncoder",
    "ImageEncoder",
    "Origin",
    "PairTasks",
    "StoredTasks",
    "TaskSet",
    "load_tasks",
    "write_tasks",
]

__getattr__ = lazy_getattr(
    __name__,
    {
        "encoders": ("Encoder", "FunctionEncoder"),
        "frames": ("FrameEncoder",),
        "images": ("ImageEncoder",),
        "labels": ("ClassNames",),
        "load": ("load_tasks",),
        "pairs": ("PairTasks",),
        "stored": ("StoredTasks",),
        "storing": ("write_tasks",),
        "taskset": ("Origin", "TaskSet"),
        "ways": ("ClassTasks",),
    },
)
