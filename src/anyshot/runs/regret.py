"""The regret of a finished run, estimated from its folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from anyshot.devices import everywhere
from anyshot.errors import DataError, InputError, RunError
from anyshot.online.regret import losses_in_hindsight, trained_on
from anyshot.runs import checkpoints
from anyshot.runs.driving import restored
from anyshot.runs.experiment import Experiment
from anyshot.runs.folder import CHECKPOINTS
from anyshot.runs.reading import read_events, read_experiment, read_summary
from anyshot.runs.settings import settings_from


def estimate_regret(
    folder: Path, steps: int = 1000, warn: Callable[[str], None] = lambda sentence: None
) -> dict[str, Any]:
    """Cumulative loss, that of the comparator after `steps` more steps on all data, and their difference.

    Args:
        folder: of a finished run.
        steps: the comparator is trained on for, from the run's final state.
        warn: called with one sentence if a checkpoint is damaged and an earlier one is used.
    """
    if steps < 0:
        raise InputError(f"steps must be at least 0, got {steps}")
    if read_summary(folder) is None:  # it has not seen all its tasks yet
        raise InputError(f"{folder} holds a run that is not finished; finish it with: anyshot run --resume {folder}")
    found = read_experiment(folder)
    experiment = Experiment(settings_from(found["settings"]), found["learner"], found["seed"])
    if experiment.settings.protocol.borrow:
        raise InputError(
            f"{folder} has protocol.borrow, whose shots depend on the whole stream; its regret is not known"
        )
    tasks = experiment.load_tasks()
    if tasks.fingerprint != found["fingerprint"]:
        raise DataError(
            f"{folder} was run on other data: {found['fingerprint']}, not {tasks.fingerprint}; bring that back"
        )
    loop, stream, keys = experiment.loop(tasks), experiment.stream(tasks), experiment.keys()
    checkpoint = checkpoints.load(folder / CHECKPOINTS, warn)
    if checkpoint is None:
        raise DataError(f"{folder} has no checkpoint to start the comparator from; run it again")
    state = everywhere(restored(eqx.filter_jit(loop.start)(stream, keys["start"]), checkpoint.arrays))
    events = [(number, event) for number, event in enumerate(read_events(folder)) if "position" in event]
    rounds = jnp.asarray(-(-steps // experiment.settings.protocol.every), jnp.int32)
    learner = trained_on(loop, stream, state, jax.random.fold_in(keys["run"], 2**31), rounds)
    columns = [[event["position"], event["labels"], number] for number, event in events]
    position, received, number = jnp.asarray(np.array(columns, np.int32).T)
    losses = np.asarray(losses_in_hindsight(loop, stream, learner, keys["run"], position, received, number), np.float64)
    if not np.all(np.isfinite(losses)):
        raise RunError(f"the comparator of {folder} has a loss that is not finite; try fewer steps than {steps}")
    cumulative = float(np.sum([event["loss"] for _, event in events]))
    return {
        "cumulative_loss": cumulative,
        "hindsight_loss": float(losses.sum()),
        "regret": cumulative - float(losses.sum()),
        "steps": steps,
    }
