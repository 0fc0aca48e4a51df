"""Running an offline experiment in a run folder: meta-training, then the test on unseen tasks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from anyshot.errors import RunError
from anyshot.offline.evaluation import evaluate, some_rounds
from anyshot.offline.split import Draw
from anyshot.runs.driving import Watch, compiled, drive, environment, interruptible
from anyshot.runs.folder import RunFolder, read_events
from anyshot.runs.offline_events import OfflineEvents, tested
from anyshot.runs.offline_experiment import OfflineExperiment


def run_offline(
    experiment: OfflineExperiment,
    out: Path,
    *,
    checkpoint_seconds: float = 60.0,
    watch: Watch = lambda what, news: None,
    warn: Callable[[str], None] = lambda sentence: None,
) -> list[dict[str, Any]]:
    """Run an experiment to its end, or on from where it was left; return the test's events, one a number of shots.

    Args:
        experiment: what to run.
        out: the run folder: new, empty, or of this experiment.
        checkpoint_seconds: how often to save, at least.
        watch: called with ("compiling", ...), ("evaluated", event), ("testing", ...), ("saved", ...) as they happen.
        warn: called with one sentence for each thing that was wrong and has been healed.

    Raises:
        RunError: a parameter was not finite; the last good checkpoint is kept.
        KeyboardInterrupt: Ctrl-C; the chunk at hand was finished and saved.
    """
    plan, keys = experiment.settings.plan, experiment.keys()
    watch("loading", {"name": experiment.settings.data.name})
    tasks = experiment.load_tasks()
    loop = experiment.loop(tasks)
    with RunFolder.opened(out, experiment.describe(tasks), environment(), warn) as folder:
        if not folder.finished:
            split = experiment.split(tasks)
            state = drive(
                loop,
                split,
                keys,
                OfflineEvents(plan),
                lambda state: bool(loop.ended(state)),
                folder,
                checkpoint_seconds,
                watch,
            )
            tests = Draw.test(split.test, plan)
            watch("testing", {"tasks": split.test.tasks})

            with interruptible() as interrupted:

                def tell(count: int) -> None:
                    watch("tested", {"episodes": count})
                    if interrupted:
                        raise KeyboardInterrupt

                scores = evaluate(loop, tests, state.best, keys["test"], tell, compiled_rounds())
            if not np.all(np.isfinite(scores.loss)):
                raise RunError(
                    f"a loss was not finite in the test of {out}; try a smaller numbers.meta_rate or "
                    "numbers.inner_rate, or numbers.inner_clip, in a new folder"
                )
            lines = tested(scores)
            folder.append(lines)
            for line in lines:
                watch("evaluated", line)
            steps, best = (plan.every * int(number) for number in (state.rounds, state.best_round))
            folder.finish({"steps": steps, "best_step": best, "test": lines})
    return [event for event in read_events(out) if "test" in event]


@functools.cache
def compiled_rounds() -> Any:
    """Rounds of a test, compiled once in a process for all runs that differ only in their seed."""
    return compiled(some_rounds)
