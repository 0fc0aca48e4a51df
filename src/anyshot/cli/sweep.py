"""`anyshot sweep`: many runs from one file."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import tyro

from anyshot.cli.options import Count, Device, Gpus, OutFolder
from anyshot.runs.interrupts import delay_interrupts, reveal_interrupts

SpecFile = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SPEC.toml")]
Mirror = Annotated[str | None, tyro.conf.arg(metavar="URL", help_behavior_hint="")]


def sweep(
    spec: SpecFile,
    out: OutFolder,
    on: Annotated[str, tyro.conf.arg(metavar="{local,auto,ray://HOST:PORT}")] = "local",
    workers: Count = None,
    gpus: Gpus = None,
    device: Device = "auto",
    checkpoint_seconds: float = 60.0,
    mirror: Mirror = None,
    quiet: bool = False,
) -> None:
    """Run a grid, a list or a search of experiments, and rank them with paired intervals.

    The file says what to run: experiments, learners, seeds, settings. Every run has an ordinary run folder, named after
    its settings. Finished runs are not repeated, and a sweep that was stopped or killed goes on exactly where each run
    was when the same command is given again. Changing the file adds only what is new.

    Args:
        spec: what to run, as docs/sweeps.md explains.
        out: the folder that holds the run folders; on Ray one that all nodes see.
        on: local for processes on this machine, auto for the Ray cluster that it belongs to, or the address of one.
        workers: how many runs at a time; by default one for each core, or as many as Ray has room for.
        gpus: of one run on Ray; a part of one, such as 0.25, lets runs share a GPU. By default 1 where there are any.
        device: where to compute; auto takes a GPU if JAX finds one.
        checkpoint_seconds: how often runs save, at least.
        mirror: a URL of an object store, such as s3://bucket/sweep. Runs are copied there, and those that are there and
            not in --out are fetched first, so that a sweep goes on after its machine was lost.
        quiet: print the result and no progress.
    """
    sys.path.insert(0, str(Path.cwd()))  # where own experiments are, as for `python -m`
    with reveal_interrupts():
        with delay_interrupts():
            from anyshot.sweeps.sweeping import sweep as run_sweep
        try:
            found = run_sweep(
                spec,
                out,
                on=on,
                workers=workers,
                gpus=gpus,
                device=device,
                checkpoint_seconds=checkpoint_seconds,
                mirror=mirror,
                progress=not quiet,
            )
        except KeyboardInterrupt as stop:
            given = {"--on": on, "--workers": workers, "--gpus": gpus, "--device": device, "--mirror": mirror}
            usual = {"--on": "local", "--workers": None, "--gpus": None, "--device": "auto", "--mirror": None}
            words = ["anyshot", "sweep", str(spec), "--out", str(out)]
            words += [word for name, value in given.items() if value != usual[name] for word in (name, str(value))]
            raise KeyboardInterrupt(f"{str(stop) or 'interrupted'}; go on with: {shlex.join(words)}") from None
    print("", found, sep="\n")
    figures = shlex.join(["anyshot", "report", str(out)])
    print(f"\n{len(found.finished)} finished runs in {out}; a page with figures: {figures}", flush=True)
