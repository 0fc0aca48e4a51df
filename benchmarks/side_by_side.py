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


def measure_one(name: str, learner: str) -> None:
    """Compile a run and print "ready". Then, for each number of seconds read, measure so long and print the result."""
    import jax.numpy as jnp

    from anyshot.runs.drive import compiled_run
    from anyshot.runs.online import OnlineJob
    from anyshot.runs.timing import make_states, make_timing_experiment

    job = OnlineJob(make_timing_experiment(name, learner))
    stream = job.load_data()
    _, late = make_states(job.loop, stream, job.keys["start"])
    run = functools.partial(compiled_run(), job.loop, stream, late, job.keys["run"])
    rounds = jnp.asarray(10, jnp.int32)
    int(run(rounds)[2])
    print("ready", flush=True)
    for line in sys.stdin:
        steps, started = 0, time.perf_counter()
        while time.perf_counter() - started < float(line):
            steps += int(run(rounds)[2]) * job.protocol.steps_per_arrival * job.protocol.updates_per_step
        print(1000 * (time.perf_counter() - started) / steps, flush=True)


def main(runs: list[str]) -> None:
    """Start all runs and measure them, first one after another, then together."""
    if not runs or any(run.count(":") != 1 for run in runs):
        sys.exit("give runs as PRESET:LEARNER, such as rainbow-mnist:ftml-vs")
    environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} | os.environ
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    command = [sys.executable, "-m", "benchmarks.side_by_side", "--one"]
    processes = [subprocess.Popen([*command, *run.split(":")], **pipes) for run in runs]  # type: ignore[call-overload]

    def read(process: subprocess.Popen[str]) -> str:
        line = process.stdout.readline().strip()  # type: ignore[union-attr]
        return line or sys.exit(f"{process.args!r} ended without a result")

    def ask(process: subprocess.Popen[str]) -> None:
        process.stdin.write(f"{SECONDS}\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]

    for process in processes:
        read(process)
    alone = []
    for process in processes:
        ask(process)
        alone.append(float(read(process)))
    for process in processes:
        ask(process)
    together = [float(read(process)) for process in processes]
    for run, first, second in zip(runs, alone, together, strict=True):
        print(f"{run:40} alone {first:9.2f} ms, together {second:9.2f} ms")
    gain = sum(first / second for first, second in zip(alone, together, strict=True))
    print(f"together they do {gain:.2f} times the work that they do one after another in the same time")
    for process in processes:
        process.communicate()


if __name__ == "__main__":
    measure_one(*sys.argv[2:]) if sys.argv[1:2] == ["--one"] else main(sys.argv[1:])
