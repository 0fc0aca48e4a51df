"""`python -m paper`: run what is missing of the paper's tables, and write the document that compares them with ours."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tabulate import tabulate

from anyshot.errors import DataError, InputError, RunError
from anyshot.runs.reading import find_runs, read_run
from anyshot.sweeps.progress import describe_progress
from paper.cost import describe_cost, estimate_minutes, needs_gpu
from paper.document import DOCUMENT, RESULTS, write_document
from paper.jobs import Job, find_job, list_jobs
from paper.queue import run_jobs
from paper.results import Results, read_results, result_path, write_result
from paper.sections import write_section
from paper.targets import describe_targets, find_tables

MAX_SEEDS = 100
WORDS = describe_targets() | {
    "document": "write REPRODUCTION.md and its figures from the summaries; runs nothing",
    "collect": "take the finished runs in --out, made by any command, into the summaries; runs nothing",
}
LINES = "\n".join(f"  {name:{max(map(len, WORDS))}}  {line}" for name, line in WORDS.items())
HELP = f"""Run what is missing of one of the paper's tables or figures, and print ours beside the paper's.

A run that was begun goes on, a finished one is not run again, and its summary is kept as a small JSON file in
--results. A run that fails does not stop the others. After Ctrl-C or --max-minutes the same command goes on.

targets:
{LINES}"""
Target = Annotated[Literal[tuple(WORDS)], tyro.conf.Positional, tyro.conf.arg(metavar="TARGET")]
Count = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")]
Minutes = Annotated[float | None, tyro.conf.arg(metavar="FLOAT", help_behavior_hint="(default: no limit)")]
Folder = Annotated[Path, tyro.conf.arg(metavar="PATH", help_behavior_hint="(default: paper/results)")]


def run_target(
    target: Target,
    seeds: Count = None,
    out: Path = Path("runs/paper"),
    results: Folder = RESULTS,
    max_minutes: Minutes = None,
    parallel: int = 1,
    runs: Literal["all", "gpu", "cpu"] = "all",
    plan: bool = False,
    device: Literal["auto", "cpu", "gpu"] = "auto",
) -> None:
    """See HELP, which lists the targets as well.

    Args:
        target: a table or figure of the paper, one part of it, document, or collect.
        seeds: how many of every method; by default as many as the target asks for, usually three.
        out: the folder that holds the run folders.
        results: the folder of the summaries.
        max_minutes: after which all runs are asked to save and stop; that may take a minute more.
        parallel: how many runs at a time; four share a GPU well if nvidia-cuda-mps-control -d was started.
        runs: gpu leaves out the models from scratch, for which a CPU is enough; cpu all others (see --device, too).
        plan: print what would be run and how long it would take, and stop.
        device: where to compute; auto takes a GPU if JAX finds one.
    """
    for name, value in (("--seeds", seeds), ("--parallel", parallel), ("--max-minutes", max_minutes)):
        if value is not None and not value > 0:
            raise InputError(f"{name} must be above 0, got {value:g}")
    if seeds is not None and seeds > MAX_SEEDS:
        raise InputError(f"--seeds must be at most {MAX_SEEDS}, got {seeds}")
    for name, folder in (("--out", out), ("--results", results)):
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{name} must be a folder, and {folder} is a file")
    if target == "document":
        if not results.is_dir():
            raise InputError(f"--results must be the folder of the summaries, and {results} is not there")
        document = DOCUMENT if results == RESULTS else results.parent / DOCUMENT.name
        write_document(results, document)
        print(f"document: {document}")
        return
    if target == "collect":
        _collect(out, results)
        return
    tables = find_tables(target)
    jobs = [job for job in list_jobs(tables, seeds) if runs in ("all", "gpu" if needs_gpu(job) else "cpu")]
    if plan:
        _print_plan(jobs, out, results)
        return
    _run(jobs, out, results, device, parallel, max_minutes)
    found = read_results(results)
    print(*("\n" + write_section(table, found) for table in tables), sep="\n")


def _collect(out: Path, results: Path) -> None:
    """Write the summaries of finished runs; what has one already, or is in no table, is left alone."""
    there = read_results(results)
    for folder in find_runs([out]):
        experiment, _, summary = read_run(folder)
        job = find_job(experiment)
        if summary is None or job is None or job in there:
            why = "not finished" if summary is None else "in no table" if job is None else f"there already: {job}"
            print(f"{folder}: {why}")
        else:
            print(f"{folder}: {write_result(job, folder, folder.with_name(f'{folder.name}.times'), results)}")


def _describe_state(job: Job, out: Path, results: Path, there: Results) -> str:
    if job in there:
        return f"there: {result_path(results, job)}"
    if job.finished(out):
        return f"finished: {job.folder(out)}"
    progress = describe_progress(job.folder(out))
    return f"begun: {progress}" if progress else "to run"


def _print_plan(jobs: Sequence[Job], out: Path, results: Path) -> None:
    there, rows, left = read_results(results), [], []
    for job in jobs:
        state = _describe_state(job, out, results, there)
        minutes = estimate_minutes(job, there)
        if state.startswith(("begun", "to run")):
            left.append(job)
            on_gpu = "not known" if minutes is None else f"{minutes:.1f}"
            rows.append([str(job), on_gpu if needs_gpu(job) else "on a CPU", state])
        else:
            rows.append([str(job), "0", state])
    print(tabulate(rows, ["run", "minutes of an H200", "state"], "plain", disable_numparse=True))
    print(f"\n{len(left)} of {len(jobs)} runs left" + (f": {describe_cost(left, there)}" if left else ""))


def _run(jobs: Sequence[Job], out: Path, results: Path, device: str, parallel: int, max_minutes: float | None) -> None:
    def keep(job: Job) -> None:
        _say(f"{job}: summary: {write_result(job, job.folder(out), job.times(out), results)}")

    there, todo, failed = read_results(results), [], []
    for job in jobs:
        if job not in there and not job.finished(out):
            todo.append(job)
        elif job not in there:
            try:
                keep(job)
            except DataError as error:
                _say(f"{job}: {error}")
                failed.append(job)
    _say(f"{len(jobs) - len(todo)} of {len(jobs)} runs are there, {len(todo)} to run")
    seconds = None if max_minutes is None else 60 * max_minutes
    again = shlex.join(["python", "-m", "paper", *sys.argv[1:]])
    outcome = run_jobs(todo, out, device, parallel, seconds, keep)
    failed += [job for job in todo if job.trial in outcome.failed or job.trial in outcome.diverged]
    why = [f"{len(failed)} failed: {'; '.join(map(str, failed))}"] if failed else []
    if outcome.stopped:
        why = [f"{outcome.stopped}, {outcome.left} of {len(jobs)} runs are left", *why]
        raise KeyboardInterrupt("; ".join([*why, f"go on with: {again}"]))
    if why:
        raise RunError(f"{why[0]}; what the workers printed is in {out}; try again with: {again}")


def _say(line: str) -> None:
    print(line, flush=True)


def main() -> None:
    """Run the command; an error is one sentence."""
    try:
        tyro.cli(run_target, prog="python -m paper", description=HELP)
        return
    except KeyboardInterrupt as stop:
        why, code = str(stop) or "interrupted", 130
    except InputError as error:
        why, code = str(error), 2
    except (DataError, RunError, OSError) as error:
        why, code = str(error), 1
    print(f"paper: {why}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
