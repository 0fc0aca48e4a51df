"""Experiments, and runs of them on disk: one writer, an event log, checkpoints to go on from."""

from typing import TYPE_CHECKING

from anyshot.lazy_imports import lazy_getattr

if TYPE_CHECKING:
    from anyshot.runs.experiment import Experiment, make_learner
    from anyshot.runs.make import make_experiment
    from anyshot.runs.presets import PRESETS, Preset, preset
    from anyshot.runs.regret import estimate_regret
    from anyshot.runs.running import Run, load_run, run
    from anyshot.runs.table import read_runs, run_table, task_table

__all__ = [
    "PRESETS",
    "Experiment",
    "Preset",
    "Run",
    "estimate_regret",
    "load_run",
    "make_experiment",
    "make_learner",
    "preset",
    "read_runs",
    "run",
    "run_table",
    "task_table",
]

__getattr__ = lazy_getattr(
    __name__,
    {
        "experiment": ("Experiment", "make_learner"),
        "make": ("make_experiment",),
        "presets": ("PRESETS", "Preset", "preset"),
        "regret": ("estimate_regret",),
        "running": ("Run", "load_run", "run"),
        "table": ("read_runs", "run_table", "task_table"),
    },
)
