"""A run without JAX whose numbers are chaotic, so that a wrong bit anywhere shows in the end.

`python -m tests.support.toy_runs kill FOLDER SEED KILLS` forks toy runs and kills them; `hold FOLDER` keeps one open.
"""

from __future__ import annotations

import functools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import ml_dtypes
import numpy as np

from anyshot.runs import checkpoints
from anyshot.runs.checkpoints import Checkpoint
from anyshot.runs.folder import RunFolder
from anyshot.runs.reading import experiment_sha256
from anyshot.runs.records import Evaluation, ExperimentRecord, LearnerRecord, OnlineSummary, TasksRecord

ROOT = Path(__file__).parent.parent.parent
PROMISED = ("experiment.json", "events.jsonl", "checkpoints", "summary.json")
EXPERIMENT = ExperimentRecord(
    kind="online",
    seed=3,
    tasks=TasksRecord(name="toy", fingerprint="f00"),
    learner=LearnerRecord(name="toy", type={"name": "toy.Toy"}, hyperparameters={"rates": [0.1, 0.2]}),
    protocol={"test_size": 1, "rounds": 9},
)


class Stop(Exception):
    """The toy run was told to stop here."""


def no_warning(message: str) -> NoReturn:
    raise AssertionError(f"nothing is damaged, but: {message}")


def toy_event(number: int, place: int = 0, loss: float = 0.5) -> Evaluation:
    return Evaluation(
        position=number,
        task="ä",
        step=place,
        labels=place,
        shots=0,
        loss=loss,
        mastered=False,
        ended=place == 1,
        total_loss=loss,
        total_labels=number,
    )


toy_summary = functools.partial(OnlineSummary, tasks=9, mastered=0, total_labels=9)


def toy(path: Path, warn: Callable[[str], None] = no_warning, stop: int | None = None, size: int = 6) -> None:
    """A run of 9 rounds, with a checkpoint every second round and at the end."""
    with RunFolder.opened(path, EXPERIMENT, {"pid": os.getpid()}, warn) as run:
        if run.finished:
            return
        found = run.resume()
        arrays = found.arrays if found else {"w": np.linspace(0.1, 0.9, size, dtype=np.float32), "n": np.zeros((), int)}
        first = found.info["round"] + 1 if found else 0
        assert first == (found.number if found else 0)
        for number in range(first, 9):
            if number == stop:
                raise Stop
            w = (np.float32(3.9) * arrays["w"] * (1 - arrays["w"])).astype(np.float32)
            arrays = {"w": w, "n": arrays["n"] + 1, "half": w.astype(ml_dtypes.bfloat16)}
            run.append([toy_event(number, place, float(x)) for place, x in enumerate(w[:2])])
            if number % 2 == 1 or number == 8:
                run.save(number + 1, arrays, {"round": number})
        run.finish(functools.partial(toy_summary, total_loss=float(arrays["w"].sum())))


def content(path: Path) -> dict[str, bytes]:
    """All that must be equal: everything in a run folder but who wrote it; nothing unfinished may be left."""
    files = {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}
    assert not list(path.rglob(".unfinished-*"))
    return {name: data for name, data in files.items() if name.startswith(PROMISED)}


def newest(path: Path) -> Checkpoint | None:
    return checkpoints.load(path / "checkpoints", experiment_sha256(path), no_warning)


def start_script(*argv: str) -> subprocess.Popen[str]:
    """This file as a process."""
    words = [sys.executable, "-m", "tests.support.toy_runs", *argv]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def hold(folder: Path) -> None:
    with RunFolder.opened(folder, EXPERIMENT, {}, no_warning) as run:
        run.resume()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        time.sleep(60)


def kill(folder: Path, seed: int, kills: int) -> None:
    """Fork runs and kill them until `kills` were hit; prints what was hit."""
    draws, hit = random.Random(seed), {"kills": 0, "saving": 0, "runs": 0}  # noqa: S311
    toy(folder / "whole")
    began = time.monotonic()
    wait(fork(folder / "slow"))
    life = time.monotonic() - began
    while hit["kills"] < kills:
        path = folder / str(hit["runs"])
        while True:
            pid = fork(path)
            time.sleep(draws.uniform(0, life) * draws.choice([0.2, 0.6, 1.0]))
            os.kill(pid, signal.SIGKILL)
            if not wait(pid):
                break
            hit["kills"] += 1
            hit["saving"] += any((path / "checkpoints").glob(".unfinished-*/state.safetensors"))
            if (path / "experiment.json").exists():
                newest(path)  # it is good, or there is none
        assert content(path) == content(folder / "whole"), path
        hit["runs"] += 1
    sys.stdout.write(json.dumps(hit))


def fork(path: Path) -> int:
    """A toy run in a process of its own, whose writes take their time."""
    pid = os.fork()
    if pid:
        return pid
    fsync, write = os.fsync, os.write

    def slow_fsync(handle: int) -> None:
        time.sleep(0.001)
        fsync(handle)

    def slow_write(handle: int, data: memoryview) -> int:
        time.sleep(0.001)
        return write(handle, data[: len(data) // 2 + 1])

    os.fsync, os.write = slow_fsync, slow_write  # type: ignore[assignment]
    try:
        toy(path)
        os._exit(0)
    finally:
        os._exit(1)


def wait(pid: int) -> bool:
    """Whether a process was killed; if not, it must have ended well."""
    status = os.waitpid(pid, 0)[1]
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert killed or os.waitstatus_to_exitcode(status) == 0
    return killed


if __name__ == "__main__":
    what, where, *numbers = sys.argv[1:]
    hold(Path(where)) if what == "hold" else kill(Path(where), *map(int, numbers))
