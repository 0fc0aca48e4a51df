"""Which runs are missing, and how long they take on an H200."""

from __future__ import annotations

from collections.abc import Sequence

from paper.jobs import Job, list_jobs
from paper.results import Results
from paper.targets import MINUTES, Table, specs_of
from paper.text import format_minutes

FROM_SCRATCH = ("scratch", "scratch-kernel")  # they learn nothing from other tasks, so that a CPU is enough


def needs_gpu(job: Job) -> bool:
    """Whether a run is one for a GPU."""
    return specs_of(job.label)[0].learner not in FROM_SCRATCH


def estimate_minutes(job: Job, results: Results) -> float | None:
    """Minutes of the GPU for a run; None if nothing is known.

    If other seeds of the same method were timed, their mean; runs that shared the GPU count by their share of it. Else
    the guess in `targets.toml`.
    """
    table = results.table
    rows = table[(table["preset"] == job.preset) & (table["label"] == job.label)].dropna(subset="minutes")
    if len(rows):
        return float((rows["minutes"] / rows["at_once"].clip(lower=1)).mean())
    return MINUTES.get(job.preset)


def describe_cost(jobs: Sequence[Job], results: Results) -> str:
    """How many runs, and how long an H200 needs for them."""
    of_gpu, parts = [job for job in jobs if needs_gpu(job)], []
    if of_gpu:
        minutes = [estimate_minutes(job, results) for job in of_gpu]
        known = sum(each for each in minutes if each is not None)
        time = "time not known" if None in minutes else f"about {format_minutes(known)} of an H200"
        parts = [f"{len(of_gpu)} run{'s' * (len(of_gpu) > 1)}, {time}"]
    if on_cpu := len(jobs) - len(of_gpu):
        parts.append(f"{on_cpu} run{'s' * (on_cpu > 1)} on a CPU")
    return "; ".join(parts)


def find_missing(table: Table, results: Results) -> list[Job]:
    """The runs of a table that there is no summary of."""
    return [job for job in list_jobs([table]) if job not in results]
