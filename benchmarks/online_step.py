"""An online step, evaluation and logging included, against the bare meta-gradient at the same sizes.

    python -m benchmarks.online_step            # the paper's sizes; about 4 minutes on two cores, seconds on a GPU

Both run in this process, by turns, on the same device. The online steps are FTML-VS with the preset `rainbow-mnist` on
random images of its shape (what is in them does not change the time), at the beginning of the stream and at its end,
where the buffer holds 40,000 datapoints of 56 tasks.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyshot

anyshot.use_cpu_cores()

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from anyshot.devices import everywhere
from anyshot.online import Buffer, OnlineState
from anyshot.runs.events import Events
from anyshot.runs.experiment import Experiment
from anyshot.runs.folder import RunFolder
from anyshot.runs.online import compiled_run
from anyshot.runs.presets import preset

from .meta_step.ours import anyshot as bare_meta_gradient
from .meta_step.problem import make_problem


def random_tasks() -> anyshot.TaskSet:
    random = np.random.default_rng(0)
    x = random.integers(0, 256, (56 * 900, 28, 28, 3), np.uint8)
    rows = np.arange(56 * 900, dtype=np.int32).reshape(56, 900)
    y = random.integers(0, 10, 56 * 900, np.int32)
    names = tuple(f"task {number}" for number in range(56))
    return anyshot.TaskSet("random", x, y, rows[:, :800], rows[:, 800:], names)


def online(experiment: Experiment, folder: RunFolder) -> dict[str, Callable[[], float]]:
    """Functions that run one round, as `run_online` does, and give its seconds; for a young and for an old buffer."""
    tasks = random_tasks()
    stream, keys, loop = experiment.stream(tasks), experiment.keys(), experiment.loop(tasks)
    events = Events(experiment.settings.protocol, list(tasks.task_names))
    first = everywhere(eqx.filter_jit(loop.start)(stream, keys["start"]))
    everything = jnp.full(56, 800, jnp.int32)
    buffer = Buffer(everything.at[55].set(100), jnp.arange(56, dtype=jnp.int32), jnp.asarray(56, jnp.int32))
    number = jnp.asarray(55, jnp.int32)
    last = everywhere(OnlineState(first.learner, buffer, number, number, number, jnp.asarray(True)))
    states = {"first task": first, "last task": last}

    def one_round(which: str) -> float:
        started = time.perf_counter()
        state, records, done = compiled_run()(loop, stream, states[which], keys["run"], jnp.asarray(1, jnp.int32))
        folder.append(events.of(jax.device_get(records), int(done)))
        states[which] = state
        return time.perf_counter() - started

    one_round("first task")  # round 0 only evaluates
    return {which: lambda which=which: one_round(which) for which in states}  # type: ignore[misc]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--repeats", type=int, default=5, help="rounds of each (%(default)s)")
    repeats = arguments.parse_args().repeats
    settings = preset("rainbow-mnist")
    bare = bare_meta_gradient(make_problem())
    steps = settings.protocol.every
    with tempfile.TemporaryDirectory() as place, RunFolder.opened(Path(place, "run"), {}, {}, print) as folder:
        folder.resume()
        rounds: dict[str, Any] = {"bare meta-gradient": lambda: _seconds(bare, steps)}
        rounds |= online(Experiment(settings, "ftml-vs", 0), folder)
        for one in rounds.values():
            one()
        taken: dict[str, list[float]] = {name: [] for name in rounds}
        for _ in range(repeats):
            for name, one in rounds.items():
                taken[name].append(one() / steps)
    times = {name: float(np.median(values)) for name, values in taken.items()}
    ratios = {name: value / times["bare meta-gradient"] for name, value in times.items()}
    for name, value in times.items():
        print(f"{name:20s} {1e3 * value:8.2f} ms a step, {ratios[name]:.2f} times the bare meta-gradient")
    print(json.dumps({"device": jax.devices()[0].device_kind, "seconds": times, "ratios": ratios}))


def _seconds(bare: Any, steps: int) -> float:
    started = time.perf_counter()
    bare.run_in_loop(steps)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
