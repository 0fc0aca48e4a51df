"""Experiments that take a second, online and offline; as a script it runs one of them: KIND FOLDER."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from anyshot.runs.experiment import Experiment
from anyshot.runs.make import make_experiment
from tests.support.toy_runs import ROOT

ONLINE = {
    "data.num_tasks": 6,
    "data.train_rows": 30,
    "data.test_rows": 10,
    "network.hidden": (8,),
    "learner.meta_rate": 0.01,
    "protocol.steps_per_arrival": 3,
    "protocol.max_steps": 45,
    "protocol.threshold": 0.5,
    "protocol.max_shots": 5,
    "protocol.tasks_per_update": 3,
    "protocol.validation_size": 5,
    "protocol.test_size": 10,
}
OFFLINE = {
    "data.num_tasks": 10,
    "data.train_rows": 30,
    "data.test_rows": 10,
    "network.hidden": (8,),
    "learner.meta_rate": 0.01,
    "learner.inner_steps": 1,
    "protocol.steps": 60,
    "protocol.steps_per_trial": 20,
    "protocol.tasks_per_update": 3,
    "protocol.max_shots": 5,
    "protocol.queries": 5,
    "protocol.validation_tasks": 2,
    "protocol.validation_episodes": 10,
    "protocol.test_shots": (0, 2, 5),
    "protocol.test_queries": 10,
    "protocol.standard_error": 5.0,
    "protocol.max_episodes": 200,
}


def small_online(learner: str = "ftml-vs", seed: int = 0, **protocol: Any) -> Experiment:
    changes = {f"protocol.{name}": value for name, value in protocol.items()}
    return make_experiment("sinusoid", learner, seed, ONLINE | changes)


def small_offline(learner: str = "maml-vs", seed: int = 0, **protocol: Any) -> Experiment:
    changes = {f"protocol.{name}": value for name, value in protocol.items()}
    return make_experiment("sinusoid-offline", learner, seed, OFFLINE | changes)


SMALL = {"online": small_online, "offline": small_offline}


def with_seed(experiment: Experiment, seed: int) -> Experiment:
    return dataclasses.replace(experiment, seed=seed)


def result(folder: Path) -> dict[str, bytes]:
    """What must be the same however a run came to its end."""
    (last,) = sorted((folder / "checkpoints").iterdir())[-1:]
    files = [folder / "events.jsonl", folder / "summary.json", folder / "experiment.json", *sorted(last.iterdir())]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def start_process(*words: str, **how: Any) -> subprocess.Popen[str]:
    """A Python process that computes as tests with `quick_compilation` do; words are those behind `python`."""
    environment = {
        "JAX_COMPILATION_CACHE_DIR": str(ROOT / ".cache/jax"),
        **os.environ,
        "JAX_ENABLE_X64": "1",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "PYTHONPATH": str(ROOT),
    }
    return subprocess.Popen([sys.executable, *words], env=environment, text=True, cwd=ROOT, **how)


def start_small(kind: str, folder: Path, seconds: float = 60.0, **how: Any) -> subprocess.Popen[str]:
    return start_process("-m", "tests.support.small_runs", kind, str(folder), str(seconds), **how)


if __name__ == "__main__":
    from anyshot.runs.running import run

    kind, where, seconds = sys.argv[1:]
    pause = {"online": 0.02, "offline": 0.2}[kind]  # so that there is time to be killed in

    def observe(what: str, news: Any) -> None:
        time.sleep(pause if what == "event" else 0.0)

    run(SMALL[kind](), where, progress=False, checkpoint_seconds=float(seconds), observe=observe)
