"""Milliseconds of an online step with several runs on one device: one after another, then all at the same time.

    python -m benchmarks.side_by_side rainbow-mnist:ftml-vs rainbow-mnist-m30:ftml-vs pose:ftml-vs

Every run is a process of its own, at the end of its stream, where most tasks have all their data. On an NVIDIA GPU
start `nvidia-cuda-mps-control -d` before, so that kernels of different processes may run at the same time.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import time

SECONDS = 6.0


def one(name: str, learner: str) -> None:
    """A run: compile and say so, then at each line read from outside measure for as long as it says."""
    import jax.numpy as jnp

    from anyshot.runs.driving import compiled_run
    from anyshot.runs.experiment import Experiment
    from anyshot.runs.presets import preset
    from anyshot.runs.timing import states, tasks_for

    experiment = Experiment(preset(name), learner, 0)
    tasks = tasks_for(experiment)
    loop, stream, keys = experiment.loop(tasks), experiment.stream(tasks), experiment.keys()
    _, late = states(loop, stream, keys["start"])
    run = functools.partial(compiled_run(), loop, stream, late, keys["run"])
    rounds = jnp.asarray(10, jnp.int32)
    int(run(rounds)[2])
    print("ready", flush=True)
    for line in sys.stdin:
        steps, started = 0, time.perf_counter()
        while time.perf_counter() - started < float(line):
            steps += int(run(rounds)[2]) * loop.protocol.every * loop.protocol.updates
        print(1000 * (time.perf_counter() - started) / steps, flush=True)


def main(runs: list[str]) -> None:
    """Start them all, and measure."""
    if not runs or any(run.count(":") != 1 for run in runs):
        sys.exit("give runs as PRESET:LEARNER, such as rainbow-mnist:ftml-vs")
    environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} | os.environ
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    command = [sys.executable, "-m", "benchmarks.side_by_side", "--one"]
    processes = [subprocess.Popen([*command, *run.split(":")], **pipes) for run in runs]  # type: ignore[call-overload]

    def told(process: subprocess.Popen[str]) -> str:
        line = process.stdout.readline().strip()  # type: ignore[union-attr]
        return line or sys.exit(f"{process.args!r} ended without a result")

    def ask(process: subprocess.Popen[str]) -> None:
        process.stdin.write(f"{SECONDS}\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]

    for process in processes:
        told(process)
    alone = []
    for process in processes:
        ask(process)
        alone.append(float(told(process)))
    for process in processes:
        ask(process)
    together = [float(told(process)) for process in processes]
    for run, first, second in zip(runs, alone, together, strict=True):
        print(f"{run:40} alone {first:9.2f} ms, together {second:9.2f} ms")
    gain = sum(first / second for first, second in zip(alone, together, strict=True))
    print(f"together they do {gain:.2f} times the work that they do one after another in the same time")
    for process in processes:
        process.communicate()


if __name__ == "__main__":
    one(*sys.argv[2:]) if sys.argv[1:2] == ["--one"] else main(sys.argv[1:])
