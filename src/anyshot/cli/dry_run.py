"""What --dry-run prints: the settings, and what the run would need."""

from __future__ import annotations

from pathlib import Path

from anyshot.cli.progress import about
from anyshot.runs.settings import OfflineSettings, Settings
from anyshot.tasks.catalogue import entry
from anyshot.tasks.load import place
from anyshot.tasks.own_files import stand_in
from anyshot.tasks.store import there


def describe(learner: str, seed: int, out: Path, settings: Settings | OfflineSettings) -> None:
    """Print it."""
    print(f"learner {learner}, seed {seed}, run folder {out}")
    for part, values in settings.model_dump(mode="json").items():
        for name, value in values.items():
            print(f"  {part}.{name} = {value}")
    print(_rules(settings), flush=True)
    data, one = settings.data, entry(settings.data.name)
    if one.files and not there(place(data.name, one, data.seed, data.settings, stand_in(one))):
        print(f"memory and time: not known before the data is here; anyshot data fetch {data.name}")
        return
    for line in _needs(learner, seed, settings):
        print(line)


def _rules(settings: Settings | OfflineSettings) -> str:
    if isinstance(settings, OfflineSettings):
        plan = settings.plan
        steps = f"{plan.rounds * plan.every:,} meta-updates of {plan.tasks_per_update} tasks"
        return f"at most {steps}, {plan.rounds:,} trials, then the test"
    rules = settings.protocol
    most, labels = rules.rounds * rules.every, rules.rounds * rules.arrive
    return f"each task: at most {most:,} steps, {labels:,} labels, {rules.rounds + 1:,} evaluations"


def _needs(learner: str, seed: int, settings: Settings | OfflineSettings) -> list[str]:
    from anyshot.cli.device import use_device

    use_device("cpu", "together")  # it only counts, for which no GPU has to be started
    from anyshot.cli.estimate import estimate
    from anyshot.runs.experiment import Experiment
    from anyshot.runs.offline_experiment import OfflineExperiment

    experiment: Experiment | OfflineExperiment
    if isinstance(settings, OfflineSettings):
        experiment = OfflineExperiment(settings, learner, seed)
        early, on_top = "; training that gets no better makes it shorter", "the test and compiling come"
    else:
        experiment = Experiment(settings, learner, seed)
        early, on_top = "; tasks that are mastered sooner make it shorter", "compiling comes"
        early = early if settings.protocol.advance else ""
    need = estimate(experiment, experiment.load_tasks())
    working = ", ".join(f"{_megabytes(size)} on {name}" for name, size in need.working.items())
    times = ", ".join(
        f"{about(need.steps * seconds)} on {name} ({_milliseconds(seconds)} a step)"
        for name, seconds in need.step.items()
    )
    return [
        f"memory: {_megabytes(need.task_set)} for the task set, and for a step about {working}; JAX itself, and on a "
        "GPU its reserve, come on top",
        f"time: {need.steps:,} steps at most, about {times}{early}; {on_top} on top",
        "these are guesses from the arithmetic of a step, made for those two machines; they may be off by a factor of "
        "three",
    ]


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:,.3g} ms" if seconds < 1 else f"{1000 * seconds:,.0f} ms"


def _megabytes(size: int | float) -> str:
    return f"{max(1, round(size / 1e6)):,} MB"
