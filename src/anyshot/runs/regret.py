"""The regret of a finished run, estimated from its folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from anyshot.devices import replicate
from anyshot.errors import DataError, InputError, RunError
from anyshot.online.regret import losses_in_hindsight, train_on
from anyshot.runs import checkpoints
from anyshot.runs.drive import start
from anyshot.runs.make import experiment_from
from anyshot.runs.online import OnlineJob
from anyshot.runs.reading import CHECKPOINTS_FOLDER, experiment_sha256, read_format, read_run
from anyshot.runs.records import Evaluation
from anyshot.runs.state import restore_state

COMPARATOR_FOLD = 2**31  # folded into the run's key; no round has so large a number


def estimate_regret(
    folder: str | Path, steps: int = 1000, warn: Callable[[str], None] = lambda sentence: None
) -> dict[str, float]:
    """Cumulative loss, that of the comparator after `steps` more steps on all data, and their difference.

    Args:
        folder: of a finished online run.
        steps: how long the comparator is trained on, from the run's final state.
        warn: called with one sentence if a checkpoint is damaged and an earlier one is used.

    Returns:
        `cumulative_loss`, `hindsight_loss`, `regret` (the first less the second) and `steps`.
    """
    place = Path(folder)
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
        raise InputError(f"steps must be a whole number of at least 0, got {steps!r}")
    record, events, summary = read_run(place)
    if record.kind != "online":
        raise InputError(f"{place} holds an offline run; only an online run has a regret")
    if summary is None:  # it has not seen all its tasks yet
        raise InputError(f"{place} holds a run that is not finished; finish it with: anyshot run --resume {place}")
    if record.protocol.get("borrow"):
        raise InputError(
            f"{place} has protocol.borrow, whose shots depend on the whole stream; its regret is not known"
        )
    job = OnlineJob(experiment_from(record))
    expected = experiment_sha256(place) if read_format(place) > 1 else None
    checkpoint = checkpoints.load(place / CHECKPOINTS_FOLDER, expected, warn)
    if checkpoint is None:
        raise DataError(f"{place} has no checkpoint to start the comparator from; run it again")
    stream = job.load_data()
    state = replicate(restore_state(start(job, stream), checkpoint.arrays))
    rounds = jnp.asarray(-(-steps // job.protocol.steps_per_arrival), jnp.int32)
    learner = train_on(job.loop, stream, state, jax.random.fold_in(job.keys["run"], COMPARATOR_FOLD), rounds)
    # A round gives one event, so that the number of an event is the number of its round.
    evaluations = [(number, event) for number, event in enumerate(events) if isinstance(event, Evaluation)]
    columns = [[event.position, event.labels, number] for number, event in evaluations]
    position, received, number = jnp.asarray(np.array(columns, np.int32).T)
    found = losses_in_hindsight(job.loop, stream, learner, job.keys["run"], position, received, number)
    losses = np.asarray(found, np.float64)
    if not np.all(np.isfinite(losses)):
        raise RunError(f"the comparator of {place} has a loss that is not finite; try fewer steps than {steps}")
    cumulative = float(np.sum([event.loss for _, event in evaluations]))
    return {
        "cumulative_loss": cumulative,
        "hindsight_loss": float(losses.sum()),
        "regret": cumulative - float(losses.sum()),
        "steps": steps,
    }
