"""What `anyshot run --dry-run` prints: the settings, and what the run would need."""

from __future__ import annotations

from pathlib import Path

from anyshot.cli.progress import about
from anyshot.runs.settings import OfflineSettings, Settings
from anyshot.tasks.catalogue import entry
from anyshot.tasks.load import place
from anyshot.tasks.own_files import stand_in
from anyshot.tasks.store import there


def describe(learner: str, seed: int, out: Path, settings: Settings) -> None:
    """Print it."""
    print_settings(learner, seed, out, settings)
    protocol = settings.protocol
    steps, labels = protocol.rounds * protocol.every, protocol.rounds * protocol.arrive
    print(f"each task: at most {steps:,} steps, {labels:,} labels, {protocol.rounds + 1:,} evaluations", flush=True)
    data, one = settings.data, entry(settings.data.name)
    if one.files and not there(place(data.name, one, data.seed, data.settings, stand_in(one))):
        print(f"memory and time: not known before the data is here; anyshot data fetch {data.name}")
        return
    for line in _needs(learner, seed, settings):
        print(line)


def print_settings(learner: str, seed: int, out: Path, settings: Settings | OfflineSettings) -> None:
    """One line for each."""
    print(f"learner {learner}, seed {seed}, run folder {out}")
    for part, values in settings.model_dump(mode="json").items():
        for name, value in values.items():
            print(f"  {part}.{name} = {value}")


def _needs(learner: str, seed: int, settings: Settings) -> list[str]:
    from anyshot.cli.device import use_device

    use_device("cpu", "together")  # it only counts, for which no GPU has to be started
    from anyshot.cli.estimate import estimate
    from anyshot.runs.experiment import Experiment

    experiment = Experiment(settings, learner, seed)
    need = estimate(experiment, experiment.load_tasks())
    working = ", ".join(f"{_megabytes(size)} on {name}" for name, size in need.working.items())
    times = ", ".join(
        f"{about(need.steps * seconds)} on {name} ({1000 * seconds:,.3g} ms a step)"
        for name, seconds in need.step.items()
    )
    early = "; tasks that are mastered sooner make it shorter" if settings.protocol.advance else ""
    return [
        f"memory: {_megabytes(need.task_set)} for the task set, and for a step about {working}; JAX itself, and on a "
        "GPU its reserve, come on top",
        f"time: {need.steps:,} steps at most, about {times}{early}; compiling comes on top",
        "these are guesses from the arithmetic of a step, made for those two machines; they may be off by a factor of "
        "three",
    ]


def _megabytes(size: int | float) -> str:
    return f"{max(1, round(size / 1e6)):,} MB"
