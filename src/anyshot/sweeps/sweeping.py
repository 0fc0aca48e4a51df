"""`anyshot.sweep`: check everything, run what is missing, and compare."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyshot.errors import InputError, RunError
from anyshot.folders import check_folder
from anyshot.limits import check_whole, is_number
from anyshot.report.groups import SHARED
from anyshot.report.words import count
from anyshot.runs.files import writing
from anyshot.runs.lock import only_writer
from anyshot.sweeps.copies import CopyingPool, RunCopies
from anyshot.sweeps.local import LocalPool
from anyshot.sweeps.on_ray import RayPool
from anyshot.sweeps.plan import FixedPlan, SearchPlan, make_plan
from anyshot.sweeps.progress import SweepProgress
from anyshot.sweeps.results import FolderResults, check_folders
from anyshot.sweeps.running import Outcome, Pool, run_plan
from anyshot.sweeps.search import RandomSampler, ends_of, make_sampler
from anyshot.sweeps.spec import Spec, read_spec
from anyshot.sweeps.trials import Candidate, Trial, list_bases, list_candidates

if TYPE_CHECKING:
    from anyshot.report import Comparison

AGAIN = "give the same command again: every run goes on from its last checkpoint"


@dataclass(frozen=True)
class Sweep:
    """What came out of a sweep.

    Attributes:
        folder: that holds the run folders.
        finished: the folders of the runs that came to their end.
        stopped: the candidates that were stopped early, with the number of tasks they had seen.
        diverged: the runs in which a loss was not finite, each with the reason.
    """

    folder: Path
    finished: tuple[Path, ...]
    stopped: dict[Candidate, int]
    diverged: dict[Trial, str]

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """The candidates ranked, with paired differences to the reference; see `anyshot.compare`."""
        from anyshot.report import compare

        if not self.finished:
            raise RunError(f"no run in {self.folder} has come to its end, so there is nothing to compare")
        return compare(list(self.finished))

    def __str__(self) -> str:
        lines = [str(comparison).rstrip() for comparison in self.comparisons]
        for tasks in sorted(set(self.stopped.values())):
            names = [str(candidate) for candidate, there in self.stopped.items() if there == tasks]
            lines.append(f"Stopped after {count(tasks, 'task')}: {'; '.join(names)}.")
        lines += [f"Diverged: {trial}: {why}." for trial, why in self.diverged.items()]
        return "\n".join(lines)


def sweep(
    spec: str | Path | Mapping[str, Any],
    out: str | Path,
    *,
    on: str = "local",
    workers: int | None = None,
    gpus: float | None = None,
    device: str = "auto",
    checkpoint_seconds: float = 60.0,
    mirror: str | None = None,
    progress: bool = True,
) -> Sweep:
    """Run all that a spec asks for and that is not there yet, and compare.

    Args:
        spec: a TOML file, or the same content as a dict; see docs/sweeps.md.
        out: the folder that holds the run folders; runs that were begun there go on, finished ones are not repeated.
        on: where to run: "local" for processes on this machine, "auto" for the Ray cluster that this machine belongs
            to, "ray://HOST:PORT" for another one.
        workers: how many runs at a time; by default as many as this machine has cores, or as Ray has room for.
        gpus: of one run on Ray; a part of one, such as 0.25, lets runs share a GPU.
        device: where to compute: auto, cpu or gpu.
        checkpoint_seconds: how often runs save, at least.
        mirror: a URL that fsspec knows, such as "s3://bucket/sweep". Runs are copied there, and those that are there
            and not in `out` are fetched first, so that a sweep goes on after its machine was lost.
        progress: whether to print how far it is.

    Raises:
        InputError: the spec or an argument is wrong, the cluster cannot be reached, or a node does not see `out`.
        RunError: some runs failed, each with its reason; the others are finished.
        KeyboardInterrupt: Ctrl-C; all runs were saved.
    """
    read, place = read_spec(_with_names(spec)), check_folder("out", out)
    _check_arguments(place, on, workers, gpus, device, checkpoint_seconds, progress)
    check_spec(read, place)
    copies = None if mirror is None else RunCopies(mirror)
    plan, results = make_plan(read), FolderResults(place)
    pool: AbstractContextManager[LocalPool | RayPool]
    if on == "local":
        pool = LocalPool(place, workers or count_cores(), device, checkpoint_seconds)
    else:
        pool = RayPool(on, place, workers, gpus, device, checkpoint_seconds)
    opened: Pool
    with pool as opened:  # before anything is written, as there may be no cluster
        with writing(place, AGAIN):
            place.mkdir(parents=True, exist_ok=True)
        with only_writer(place, AGAIN):
            fetched = [] if copies is None else copies.fetch(place)
            if fetched:
                check_spec(read, place)  # it may be of other experiments
            if copies is not None:
                plan.legs(results)  # from here on it knows the candidates that were drawn
                copies.send_missing(place, [trial.name for trial in plan.list_trials()])
                opened = CopyingPool(opened, copies, place)
            show = SweepProgress(
                results, plan.trials, _count_done(plan, results), lambda leg: leg.describe(read.settings), not progress
            )
            with show:
                if fetched:
                    show.say(f"{count(len(fetched), 'run')} fetched from {mirror}")
                outcome = run_plan(plan, results, opened, show)
    _raise_if_unfinished(outcome, place)
    return _summarise(plan, results, outcome, place)


def check_spec(spec: Spec, out: Path) -> None:
    """Make all experiments that are known from the start, so that what cannot be is refused now.

    Of a search with Optuna these are the ones at the ends of its ranges.
    """
    for candidate in _list_known(spec):
        try:
            experiment = candidate.make(spec.seeds[0])
            if candidate.is_own and len(spec.seeds) > 1:  # which may take no notice of the seed
                candidate.make(spec.seeds[-1])
        except InputError as error:
            raise InputError(f"{candidate} on {candidate.experiment}: {error}") from error
        if spec.search is not None:
            _check_search(spec, candidate, experiment)
        check_folders(out, candidate, spec.seeds)


def _list_known(spec: Spec) -> list[Candidate]:
    if spec.search is None:
        return list_candidates(spec)
    sampler, drawn = make_sampler(spec.search), ends_of(spec.search)
    if isinstance(sampler, RandomSampler):
        drawn += sampler.ask(spec.search.trials, 0)
    every = (Candidate.of(*base, spec.settings | settings) for base in list_bases(spec) for settings in drawn)
    return list(dict.fromkeys(every))


def count_cores() -> int:
    """How many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_search(spec: Spec, candidate: Candidate, experiment: Any) -> None:
    """Refuse a search that would judge runs of different streams, or runs that have no cumulative loss."""
    assert spec.search is not None
    judges = spec.stopping is not None or spec.search.method == "optuna"
    if not judges:
        return
    what = "stopping" if spec.stopping is not None else "method = 'optuna'"
    if experiment.protocol.kind != "online":
        raise InputError(
            f"{what} goes by the cumulative loss, which {candidate.experiment} does not have: it is offline"
        )
    streams = [name for name in spec.search.space if name in SHARED["online"] or name.startswith("data.")]
    if streams:
        raise InputError(
            f"{what} compares runs of the same stream only, and {streams[0]} in the search's space changes the stream; "
            "fix it in settings"
        )
    rules = experiment.protocol
    tasks = (rules.num_tasks or experiment.tasks.num_tasks) - rules.pretrain_tasks
    if spec.stopping is not None and spec.stopping.tasks[-1] >= tasks:
        raise InputError(
            f"stopping.tasks must be below the {count(tasks, 'task')} of {candidate.experiment}, got "
            f"{spec.stopping.tasks[-1]}"
        )


def _check_arguments(
    out: Path, on: str, workers: int | None, gpus: float | None, device: str, checkpoint_seconds: float, progress: bool
) -> None:
    if not isinstance(on, str) or (on not in ("local", "auto") and not on.startswith("ray://")):
        raise InputError(f"on must be local, auto or ray://HOST:PORT, got {on!r}")
    if workers is not None:
        check_whole("workers", workers, 1, 10_000)
    if gpus is not None and not (is_number(gpus) and 0 < gpus <= 64 and (gpus < 1 or gpus == int(gpus))):
        raise InputError(f"gpus must be a part of a GPU, such as 0.25, or a whole number of them, got {gpus!r}")
    if gpus is not None and on == "local":
        raise InputError("gpus is for Ray; on this machine all runs share what GPUs there are: choose workers instead")
    if device not in ("auto", "cpu", "gpu"):
        raise InputError(f"device must be auto, cpu or gpu, got {device!r}")
    if not (is_number(checkpoint_seconds) and 0 <= checkpoint_seconds < float("inf")):
        raise InputError(f"checkpoint_seconds must be a finite number of at least 0, got {checkpoint_seconds!r}")
    if not isinstance(progress, bool):
        raise InputError(f"progress must be True or False, got {progress!r}")
    if out.exists() and not out.is_dir():
        raise InputError(f"out must be a folder, and {out} is a file")


def _with_names(spec: str | Path | Mapping[str, Any]) -> str | Path | Mapping[str, Any]:
    """A dict in which own functions are given by name, so that other processes can import them."""
    if not isinstance(spec, Mapping) or not isinstance(spec.get("experiments"), list | tuple):
        return spec
    return {**spec, "experiments": [_name_of(one) if callable(one) else one for one in spec["experiments"]]}


def _name_of(function: Any) -> str:
    module, name = function.__module__, function.__qualname__
    if module == "__main__" or "." in name or "<" in name:
        raise InputError(
            f"experiments has the function {name} of {module}, which other processes cannot import; put it into a "
            "module of its own, at its top level"
        )
    return f"{module}:{name}"


def _count_done(plan: FixedPlan | SearchPlan, results: FolderResults) -> int:
    return plan.trials - len(plan.legs(results)) if isinstance(plan, FixedPlan) else 0


def _raise_if_unfinished(outcome: Outcome, out: Path) -> None:
    failed = [f"{trial}: {why}" for trial, why in outcome.failed.items()]
    why = f"{len(failed)} failed, the first of them {failed[0]}" if failed else ""
    if outcome.stopped:
        left = f"{outcome.stopped}, with {count(outcome.left, 'run')} left in {out}"
        raise KeyboardInterrupt("; ".join(filter(None, [left, why])))
    if failed:
        raise RunError(f"{why}; then {AGAIN}")


def _summarise(plan: FixedPlan | SearchPlan, results: FolderResults, outcome: Outcome, out: Path) -> Sweep:
    finished = [trial for trial in plan.list_trials() if results.loss(trial, None) not in (None, float("inf"))]
    folders = tuple(dict.fromkeys(results.folder(trial) for trial in finished))
    return Sweep(out, folders, plan.stopped(), outcome.diverged)
