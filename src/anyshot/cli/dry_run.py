"""What `anyshot run --dry-run` prints: the settings, and what the run would need."""

from __future__ import annotations

from pathlib import Path

from anyshot.cli.device import use_device
from anyshot.runs.presets import Preset
from anyshot.runs.progress import format_duration
from anyshot.runs.settings import format_value, list_settings


def print_plan(found: Preset, learner: str, seed: int, out: Path) -> None:
    """Print the settings of a run, and an estimate of its memory and time.

    Args:
        found: the preset, with the changes of the command line.
        learner: its name.
        seed: of the run.
        out: the run folder.
    """
    from anyshot.tasks.load import is_built

    print(f"{learner} on {found.data}, seed {seed}, run folder {out}")
    for name, value in list_settings(found, learner).items():
        print(f"  {name} = {format_value(value)}")
    if is_built(found.data, found.data_seed, dict(found.data_settings)):
        _print_estimate(found, learner, seed)
    else:
        print(f"memory and time: not known before the data is here; anyshot data fetch {found.data}")


def _print_estimate(found: Preset, learner: str, seed: int) -> None:
    use_device("cpu", "together")  # it only counts
    from anyshot.runs.estimate import estimate
    from anyshot.runs.make import experiment_of

    needs = estimate(experiment_of(found, learner, seed))
    memory = ", ".join(f"{_megabytes(size)} on {name}" for name, size in needs.working_bytes.items())
    time = ", ".join(
        f"{format_duration(needs.steps * seconds)} on {name} ({1000 * seconds:,.3g} ms a step)"
        for name, seconds in needs.seconds_per_step.items()
    )
    print(f"memory: {_megabytes(needs.task_set_bytes)} for the task set; about {memory} for a step; JAX needs more")
    print(f"time: at most {needs.steps:,} steps, about {time}; compiling and starting come on top")
    print("These are estimates from the arithmetic of a step. They may be off by a factor of three.")


def _megabytes(size: float) -> str:
    return f"{max(1, round(size / 1e6)):,} MB"
