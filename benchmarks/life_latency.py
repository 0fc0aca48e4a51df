"""Milliseconds of observe + predict at about 20 labels, with 10, 1,000 and 10,000 other tasks in the folder.

    python -m benchmarks.life_latency [TASKS ...]

Two classes, inputs of 64 numbers, a network with 64 hidden units. Measured without and with learning in the background.
Processor time is that of all threads. Without learning, it is what a quiet machine would need, or more.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from anyshot import Lifelong
from anyshot.lifelong.home import FIRST
from anyshot.lifelong.progress import EXPERTS
from anyshot.lifelong.record import NEW
from anyshot.lifelong.store import open_store

LABELS, TASKS = 20, 40
DRAW = np.random.default_rng(0)
FACT = {"predicted": [[0.5, 0.5]] * len(EXPERTS), "random": True}


def fill(folder: Path, tasks: int) -> None:
    """Write tasks straight into the store, which is faster than to predict every label."""
    with open_store(folder) as store:
        known = {"kind": "classes", "shape": [64], "dtype": "float32"}
        store.set_settings({**store.settings, **known})
        for number in range(tasks):
            info = {**NEW, "classes": ["a", "b"], "slots": [0, 1], "fixed": True, "prior": FIRST[True]}
            x, y = DRAW.normal(size=(LABELS, 64)).astype(np.float32), np.arange(LABELS) % 2
            store.append(store.add_task(f"task {number}", info), x, y, [FACT] * LABELS)


def measure(life: Lifelong, name: str) -> np.ndarray:
    """Milliseconds of observe + predict of a task's 19th to 22nd label: by the clock, and of the processor."""
    found = []
    for number in range(TASKS):
        x = DRAW.normal(size=(LABELS + 4, 64)).astype(np.float32)
        y = np.where(x[:, 0] > 0, "a", "b")
        task = life.task(f"{name} {number}", classes=["a", "b"])
        task.observe(x[: LABELS - 2], y[: LABELS - 2])
        task.predict(x[-1:])
        for n in range(LABELS - 2, LABELS + 2):
            started = time.perf_counter(), time.process_time()
            task.observe(x[n : n + 1], y[n : n + 1])
            task.predict(x[n + 1 : n + 2])
            found.append((time.perf_counter() - started[0], time.process_time() - started[1]))
    return 1e3 * np.array(found[8:])


def main() -> None:
    for tasks in [int(word) for word in sys.argv[1:]] or [10, 1000, 10_000]:
        with tempfile.TemporaryDirectory() as folder:
            with Lifelong(folder, network={"kind": "mlp", "hidden": [64]}):
                pass
            fill(Path(folder), tasks)
            started = time.perf_counter()
            with Lifelong(folder) as life:
                opened = time.perf_counter() - started
                alone = measure(life, "alone")
                life.learn(updates=1)
                with life.learning():
                    beside = measure(life, "beside")
                updates = life.snapshots[-1].about["updates"]
        for name, found in (("alone", alone), ("while learning", beside)):
            (median, processor), (last, _) = np.percentile(found, [50, 99], axis=0)
            print(
                f"{tasks:6d} tasks, {name:14s}: median {median:6.1f} ms (processor {processor:6.1f} ms), "
                f"99th percentile {last:6.1f} ms",
                flush=True,
            )
        print(f"{tasks:6d} tasks: opened in {opened:.2f} s; {updates - 1} updates beside", flush=True)


if __name__ == "__main__":
    main()
