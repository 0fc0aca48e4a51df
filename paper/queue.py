"""The runs of the paper's tables, as a sweep on this machine."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from anyshot.runs.files import writing
from anyshot.runs.lock import only_writer
from anyshot.sweeps.execute import Ended
from anyshot.sweeps.local import LocalPool
from anyshot.sweeps.plan import FixedPlan, Leg
from anyshot.sweeps.progress import SweepProgress
from anyshot.sweeps.results import FolderResults
from anyshot.sweeps.running import Outcome, run_plan
from paper.jobs import Job

CHECKPOINT_SECONDS = 30.0
AGAIN = "give the same command again: every run goes on from its last checkpoint"


def run_jobs(
    jobs: Sequence[Job],
    out: Path,
    device: str,
    parallel: int,
    seconds: float | None,
    keep: Callable[[Job], None],
) -> Outcome:
    """Run jobs in this order; one that fails does not stop the others.

    Args:
        jobs: what to run.
        out: the folder that holds the run folders; a run that was begun there goes on.
        device: auto, cpu or gpu.
        parallel: how many run at a time.
        seconds: after which all are asked to save and stop; None: no limit.
        keep: called with each finished job; a `DataError` from it counts as the job's failure.
    """
    if not jobs:
        return Outcome()
    by_trial = {job.trial: job for job in jobs}
    with writing(out, AGAIN):
        out.mkdir(parents=True, exist_ok=True)
    with only_writer(out, AGAIN):
        results = FolderResults(out)
        show = _Timed(results, len(jobs), lambda leg: str(by_trial[leg.trial]), parallel)
        with LocalPool(out, parallel, device, CHECKPOINT_SECONDS) as pool, show:
            plan = FixedPlan(list(by_trial))
            return run_plan(plan, results, pool, show, seconds, lambda trial: keep(by_trial[trial]))


class _Timed(SweepProgress):
    """Also keeps how long each run took, beside its folder, as JSON lines."""

    def __init__(self, results: FolderResults, total: int, name: Callable[[Leg], str], parallel: int) -> None:
        super().__init__(results, total, 0, name)
        self.parallel, self.begun = parallel, dict[Leg, float]()

    def begin(self, leg: Leg) -> None:
        """A run was handed to the workers."""
        self.begun[leg] = time.monotonic()
        super().begin(leg)

    def end(self, ended: Ended) -> None:
        """A run has ended."""
        took = time.monotonic() - self.begun.pop(ended.leg)
        folder = self.results.folder(ended.leg.trial)
        if folder.is_dir():  # it has begun
            with folder.with_name(f"{folder.name}.times").open("a", encoding="utf-8") as times:
                times.write(json.dumps({"seconds": round(took, 1), "at_once": self.parallel}) + "\n")
        super().end(ended)
