"""Running an online experiment in a run folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from anyshot.online.ledger import Ledger
from anyshot.runs.driving import Watch, drive, environment
from anyshot.runs.events import Events
from anyshot.runs.experiment import Experiment
from anyshot.runs.folder import RunFolder, read_events


def run_online(
    experiment: Experiment,
    out: Path,
    *,
    checkpoint_seconds: float = 60.0,
    watch: Watch = lambda what, news: None,
    warn: Callable[[str], None] = lambda sentence: None,
) -> Ledger:
    """Run an experiment to its end, or on from where it was left.

    Args:
        experiment: what to run.
        out: the run folder: new, empty, or of this experiment.
        checkpoint_seconds: how often to save, at least.
        watch: called with ("compiling", ...), ("evaluated", event), ("saved", ...) as they happen.
        warn: called with one sentence for each thing that was wrong and has been healed.

    Raises:
        RunError: the loss or a parameter was not finite; the last good checkpoint is kept.
        KeyboardInterrupt: Ctrl-C; the chunk at hand was finished and saved.
    """
    watch("loading", {"name": experiment.settings.data.name})
    tasks = experiment.load_tasks()
    loop, protocol = experiment.loop(tasks), experiment.settings.protocol
    with RunFolder.opened(out, experiment.describe(tasks), environment(), warn) as folder:
        if not folder.finished:
            stream = experiment.stream(tasks)
            events = Events(protocol, [tasks.task_names[task] for task in np.asarray(stream.order)])
            drive(
                loop,
                stream,
                experiment.keys(),
                events,
                lambda state: int(state.position) >= stream.positions,
                folder,
                checkpoint_seconds,
                watch,
            )
            folder.finish(events.summary())
    return Ledger.of(read_events(out), protocol.test)
