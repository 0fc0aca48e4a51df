"""`anyshot reproduce`: the paper's tables and figures, and the document that compares them with ours."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import tyro

from anyshot.cli.listing import listed
from anyshot.cli.progress import say
from anyshot.errors import DataError, InputError, RunError
from anyshot.reproduction.jobs import Job, jobs_of, progress
from anyshot.reproduction.table import Table
from anyshot.reproduction.targets import tables_of, target_names

MOST_SEEDS = 100
WORDS = target_names() | {"document": "write REPRODUCTION.md and its figures from the summaries; runs nothing"}
HELP = f"""Run what is missing of one of the paper's tables or figures, and print ours beside the paper's.

What is half done goes on, what is finished is reused, and every finished run is kept as a small JSON file in --results.
One run that fails does not stop the others. Stopped by Ctrl-C or --max-minutes, the same command goes on.

targets:
{listed(WORDS)}"""
Target = Annotated[Literal[tuple(WORDS)], tyro.conf.Positional, tyro.conf.arg(metavar="TARGET")]
Minutes = Annotated[float | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: no limit)")]
Results = Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="")]


def reproduce(
    target: Target,
    seeds: int = 3,
    out: Path = Path("runs/reproduce"),
    results: Results = None,
    max_minutes: Minutes = None,
    parallel: int = 1,
    plan: bool = False,
    device: Literal["auto", "cpu", "gpu"] = "auto",
) -> None:
    """See HELP, which lists the targets as well.

    Args:
        target: a table or figure of the paper, a part of one, or document.
        seeds: of every method: 0, 1 and so on.
        out: the folder that holds the run folders.
        results: the folder of the summaries; results if that is here, else OUT/results.
        max_minutes: after which all runs are asked to save and stop; that may take a minute more.
        parallel: how many runs at a time; five to seven share a GPU well, with nvidia-cuda-mps-control -d started.
        plan: print what would be run, how long it would take on an H200 and what is there, and stop.
        device: where to compute; auto takes a GPU if JAX finds one.
    """
    if not 1 <= seeds <= MOST_SEEDS:
        raise InputError(f"--seeds must be 1 to {MOST_SEEDS}, got {seeds}")
    if parallel < 1:
        raise InputError(f"--parallel must be at least 1, got {parallel}")
    if max_minutes is not None and not max_minutes > 0:
        raise InputError(f"--max-minutes must be above 0, got {max_minutes}")
    kept = results or (Path("results") if Path("results").is_dir() else out / "results")
    for name, place in (("--out", out), ("--results", kept)):
        if place.exists() and not place.is_dir():
            raise InputError(f"{name} must be a folder, and {place} is a file")
    if target == "document":
        _document(kept)
        return
    tables = tables_of(target)
    jobs, without = _keep_finished(jobs_of(tables, seeds), out, kept, write=not plan)
    if plan:
        _plan(jobs, out, kept, parallel)
        return
    again = ["anyshot", "reproduce", target, "--seeds", str(seeds), "--out", str(out), "--parallel", str(parallel)]
    again += ["--results", str(results)] if results else []
    again += ["--max-minutes", f"{max_minutes:g}"] if max_minutes is not None else []
    again += ["--device", device] if device != "auto" else []
    _run(jobs, without, out, kept, device, parallel, max_minutes, shlex.join(again))
    _show(tables, kept)


def _keep_finished(jobs: Sequence[Job], out: Path, kept: Path, write: bool) -> tuple[dict[Job, str], list[Job]]:
    """What there is of each job; folders that are finished and have no summary get one, if `write` and if possible."""
    from anyshot.reproduction.results import read_results
    from anyshot.reproduction.summary import place, write_summary

    found, there, failed = {}, read_results(kept), []
    for job in jobs:
        if job in there:
            found[job] = f"there: {place(kept, job)}"
        elif job.finished(out):
            found[job] = f"there: {job.folder(out)}"
            try:
                if write:
                    say(f"{job.name}: was finished; summary: {write_summary(job, out, kept)}")
            except DataError as error:
                say(f"{job.name}: was finished, but {error}")
                failed.append(job)
        else:
            far = progress(job.folder(out))
            found[job] = f"half done: {far}" if far else "to run"
    return found, failed


def _plan(jobs: dict[Job, str], out: Path, kept: Path, parallel: int) -> None:
    from anyshot.report.formats import aligned
    from anyshot.reproduction.cost import guessed, minutes, most_steps
    from anyshot.reproduction.results import read_results
    from anyshot.reproduction.sections import duration

    there = read_results(kept)
    rows = [["run", "steps at most", "minutes alone", "what is there"]]
    for job, told in jobs.items():
        left = "0" if told.startswith("there") else f"{minutes([job], there, 1, out):.0f}"
        rows.append([job.name, f"{most_steps(job.preset):,}", left, told])
    print("\n".join(aligned(rows)))
    todo = [job for job, told in jobs.items() if not told.startswith("there")]
    how = f"{parallel} at a time" if parallel > 1 else "one after another"
    if todo:
        long = f"about {duration(minutes(todo, there, parallel, out))} on an H200 {how}"
        rough = " (guessed: it may be off by a factor of three)" if guessed(todo) else ""
        print(f"\n{len(todo)} of {len(jobs)} runs left: {long}{rough}")
    else:
        print(f"\nall {len(jobs)} runs are there")


def _run(
    jobs: dict[Job, str],
    without: Sequence[Job],
    out: Path,
    kept: Path,
    device: str,
    parallel: int,
    max_minutes: float | None,
    again: str,
) -> None:
    from anyshot.reproduction import queue
    from anyshot.reproduction.summary import write_summary

    todo = [job for job, told in jobs.items() if not told.startswith("there")]
    say(f"{len(jobs) - len(todo)} of {len(jobs)} runs are there, {len(todo)} to run")
    outcome = queue.run_all(
        todo,
        out,
        device=device,
        parallel=parallel,
        seconds=None if max_minutes is None else 60 * max_minutes,
        tell=say,
        finished=lambda job: say(f"{job.name}: summary: {write_summary(job, out, kept)}"),
    )
    bad = [*without, *outcome.failed]
    failed = f"{len(bad)} failed: {', '.join(job.name for job in bad)}" if bad else ""
    if outcome.left:
        why = f"{outcome.stopped or 'interrupted'}; {len(outcome.left)} of {len(jobs)} runs are left"
        raise KeyboardInterrupt("; ".join(filter(None, [why, failed, f"go on with: {again}"])))
    if failed:
        raise RunError(f"{failed}; what each printed is beside its folder in {out}; try again with: {again}")


def _show(tables: Sequence[Table], kept: Path) -> None:
    from anyshot.reproduction.results import read_results
    from anyshot.reproduction.sections import comparison

    found = read_results(kept)
    for table in tables:
        print(f"\n{table.heading} ({table.where})\n\n{comparison(table, found)}")
    again = shlex.join(["anyshot", "reproduce", "document", "--results", str(kept)])
    print(f"\nREPRODUCTION.md has it in full after: {again}")


def _document(kept: Path) -> None:
    from anyshot.reproduction.document import write_document

    if not kept.is_dir():
        raise InputError(f"--results must be the folder of the summaries, {kept} is not there")
    print(f"document: {write_document(kept)}, figures: {kept / 'figures'}")


def main(words: list[str]) -> None:
    """Run the command."""
    tyro.cli(reproduce, args=words, prog="anyshot reproduce", description=HELP)
