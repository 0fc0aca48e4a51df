"""`anyshot run`: an experiment from a preset, or one that was stopped."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from anyshot.cli.device import use_device
from anyshot.cli.options import Device, Devices, Hosts, LearnerName, OutFolder, Settings, hide_none
from anyshot.errors import RunError
from anyshot.learners.catalogue import LEARNERS
from anyshot.runs.interrupts import delay_interrupts, reveal_interrupts
from anyshot.runs.presets import preset
from anyshot.runs.settings import change, list_settings, parse_settings
from anyshot.runs.trackers import PACKAGES, check_tracker

if TYPE_CHECKING:
    from anyshot.runs import Experiment
    from anyshot.runs.tracking import Mirror

Track = Annotated[
    Literal[tuple(PACKAGES)] | None, tyro.conf.arg(metavar="{" + ",".join(PACKAGES) + "}", help_behavior_hint=hide_none)
]
RunFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How to run. The result does not depend on these, except for the last bits on the number of devices.

    Attributes:
        device: where to compute; auto takes a GPU if JAX finds one.
        devices: how many share the tasks of a meta-batch: a number, or auto for all; by default all cores of a CPU
            (one if learner.batching is together), or one GPU. A run goes on with as many as it had.
        hosts: that compute together, each with this command: auto under Slurm or Open MPI, else the address of the
            first, how many they are, and the number of this one from 0.
        checkpoint_seconds: how often to save, at least.
        quiet: print nothing but errors.
        track: also log to this tracker. tensorboard writes into the run folder; mlflow and wandb read their own
            environment variables, such as MLFLOW_TRACKING_URI and WANDB_MODE.
    """

    device: Device = "auto"
    devices: Devices = None
    hosts: Hosts = None
    checkpoint_seconds: float = 60.0
    quiet: bool = False
    track: Track = None

    @property
    def asked_devices(self) -> int | Literal["auto"] | None:
        """What was asked for; hosts that compute together do so on all their devices."""
        return "auto" if self.hosts is not None and self.devices is None else self.devices

    def start_jax(self, batching: str, folder: Path) -> None:
        """Start JAX on the devices wanted, or on as many as the run in the folder had."""
        from anyshot.runs.reading import recorded_devices

        use_device(self.device, batching, self.devices, self.hosts, recorded_devices(folder), self.print_line)

    def print_line(self, line: str) -> None:
        """Print a line with the time, unless quiet."""
        if not self.quiet:
            from anyshot.runs.progress import print_line

            print_line(line)


def run_preset(
    name: str,
    /,
    out: OutFolder,
    learner: LearnerName = None,
    seed: int = 0,
    settings: Settings = (),
    dry_run: bool = False,
    execution: Annotated[Execution, tyro.conf.arg(name="")] = Execution(),  # noqa: B008
) -> None:
    """Run a learner on the tasks of a preset.

    Args:
        name: of the preset.
        out: the run folder: new, empty, or of this experiment, which then goes on.
        learner: the method; by default anyshot online and maml-vs offline. The paper's online method is ftml-vs.
            `anyshot learners` lists them.
        seed: of the stream, the weights and every draw; learners with the same seed get the same tasks and datapoints.
        settings: to change, such as protocol.threshold=0.7 learner.learning_rate=0.002. Those after "learner." depend
            on the learner.
        dry_run: print the settings and an estimate of memory and time, and stop.
        execution: how to run; the result does not depend on these.
    """
    found, changes = preset(name), parse_settings([word for words in settings for word in words])
    learner = learner or found.default_learner
    LEARNERS.find(learner)  # before JAX is imported, which takes seconds
    if dry_run:
        from anyshot.cli.dry_run import print_plan

        print_plan(change(found, learner, changes), learner, seed, out)
        return

    def make() -> Experiment:
        changed = change(found, learner, changes)
        execution.start_jax(list_settings(changed, learner).get("learner.batching", "together"), out)
        from anyshot.runs.make import experiment_of

        return experiment_of(changed, learner, seed)

    execution.print_line(f"{learner} on {found.data}, seed {seed}: starting JAX")
    _execute(make, out, execution)


def resume(
    folder: RunFolder,
    execution: Annotated[Execution, tyro.conf.arg(name="")] = Execution(),  # noqa: B008
) -> None:
    """Go on with a run that was stopped or killed, from its last checkpoint.

    Args:
        folder: of the run.
        execution: how to run; the result does not depend on these.
    """
    from anyshot.runs.reading import read_experiment

    record = read_experiment(folder)

    def make() -> Experiment:
        execution.start_jax(record.learner.hyperparameters.get("batching", "together"), folder)
        from anyshot.runs.make import experiment_from

        return experiment_from(record)

    execution.print_line(f"{record.learner.name} on {record.tasks.name}, seed {record.seed}: starting JAX")
    _execute(make, folder, execution)


def _execute(make: Callable[[], Experiment], folder: Path, execution: Execution) -> None:
    """Make the experiment and run it. Interrupted, say how to go on."""
    if execution.track:
        check_tracker(execution.track)
    last = ""
    try:
        with reveal_interrupts():
            with delay_interrupts():
                from anyshot.runs.running import run
            experiment = make()
            mirror = _make_mirror(experiment, folder, execution)

            def observe(what: str, news: Any) -> None:
                nonlocal last
                last = what
                if mirror:
                    mirror(what, news)

            with mirror or nullcontext():
                finished = run(
                    experiment,
                    folder,
                    progress=not execution.quiet,
                    devices=execution.asked_devices,
                    checkpoint_seconds=execution.checkpoint_seconds,
                    observe=observe,
                    warn=warn,
                )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_explain_interrupt(folder, just_saved=last == "saved")) from None
    except Exception as error:
        if "RESOURCE_EXHAUSTED" in str(error) or isinstance(error, MemoryError):
            raise RunError(
                f"the memory of the device is not enough ({str(error).splitlines()[0]}); choose a smaller network, "
                "fewer tasks_per_update or shots, in a new folder; --dry-run estimates the memory"
            ) from error
        raise
    from anyshot.runs.hosts import is_first_host

    outcome = finished.outcome if is_first_host() else "the first host has the result"
    execution.print_line(f"done: {outcome}; run folder: {folder}")


def _make_mirror(experiment: Experiment, folder: Path, execution: Execution) -> Mirror | None:
    """What sends the events to the tracker, if there is one."""
    if execution.track is None:
        return None
    from anyshot.runs.tracking import Mirror

    return Mirror(execution.track, folder, experiment.record, execution.print_line, warn)


def warn(sentence: str) -> None:
    """Print what was wrong and has been put right."""
    print(f"anyshot: warning: {sentence}", file=sys.stderr, flush=True)


def _explain_interrupt(folder: Path, just_saved: bool) -> str:
    """What there is to go on from. While compiling, and at the third Ctrl-C, there is no time to save."""
    from anyshot.runs.reading import CHECKPOINTS_FOLDER, EXPERIMENT_FILE

    again = f"anyshot run --resume {shlex.quote(str(folder))}"
    if not (folder / EXPERIMENT_FILE).exists():
        return "interrupted before the run began"
    if just_saved:
        return f"interrupted and saved; go on with: {again}"
    saved = any((folder / CHECKPOINTS_FOLDER).glob("[0-9]*"))
    return f"interrupted; {again} goes on from " + ("its last checkpoint" if saved else "the start: nothing was saved")
