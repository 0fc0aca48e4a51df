"""How many devices share the tasks of a run's meta-batches, and how many did so before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jax

from anyshot.devices import count_sharing_devices
from anyshot.errors import InputError
from anyshot.runs.experiment import Experiment
from anyshot.runs.reading import recorded_devices
from anyshot.tasks import StoredTasks


def devices_before(folder: Path) -> int | None:
    """As many as shared the tasks before, so that the run goes on exactly; None if the usual number is right."""
    before = recorded_devices(folder)
    if before is None or before == count_sharing_devices():
        return None
    if before > len(jax.devices()):
        cores = f"anyshot.use_cpu_cores({before}) at the start of the program, or " * (jax.default_backend() == "cpu")
        raise InputError(
            f"{folder} was run on {before} devices, and JAX has {len(jax.devices())} here; give it as many with {cores}"
            "say how many to go on with (--devices, or devices=...): then the last bits of the results differ"
        )
    return before


def warn_of_other_number(folder: Path, devices: int, warn: Callable[[str], None]) -> None:
    """Say so if the run goes on with another number of devices than before."""
    before = recorded_devices(folder)
    if before is not None and before != devices:
        warn(
            f"{folder} was run on {before} device{'s' * (before != 1)} and goes on with {devices}; sums are added "
            "in another order, so the last bits of the results differ from those of a run with one number"
        )


def check_sharing(experiment: Experiment, devices: int) -> None:
    """Refuse devices that would have nothing to do, if they were asked for, and hosts that could not read."""
    learner, tasks = experiment.learner, experiment.protocol.tasks_per_update
    if jax.process_count() > 1 and isinstance(experiment.tasks, StoredTasks):
        raise InputError(
            f"stored tasks ({experiment.tasks.folder}) can be learned on one host only, and {jax.process_count()} have "
            "joined; load them as a TaskSet, or use the devices of one host"
        )
    if devices < 2 or jax.sharding.get_abstract_mesh().empty:
        return
    if not learner.shares_tasks:
        raise InputError(
            f"devices is {devices}, but {learner.name} does not share the tasks of a meta-batch among devices; use 1"
        )
    if devices > tasks:
        raise InputError(
            f"devices is {devices}, but a meta-batch has {tasks} task{'s' * (tasks != 1)} "
            f"(protocol.tasks_per_update); use at most {tasks}"
        )
