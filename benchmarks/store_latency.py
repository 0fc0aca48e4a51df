"""Milliseconds of what a store of `Lifelong` does, by how much it holds: they should not depend on it.

    python -m benchmarks.store_latency            # in a folder of the system for temporary files
    python -m benchmarks.store_latency FOLDER     # on another disk

Three numbers each: median, 99th percentile, and the median of the processor's time. An append of one example waits for
the disk twice, for the input and for the database; the first column says what two such waits take by themselves.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from anyshot.lifelong.store import Store, open_store

SIZES = [(10, 10), (10, 1_000_000), (1_000, 1_000_000), (10_000, 1_000_000)]  # tasks, examples
REPEATS = 500
FACTS = {"learned": [0.912345, 0.087655], "scratch": [0.8123, 0.1877], "weight": 0.731}


def fill(store: Store, tasks: int, examples: int) -> None:
    rng = np.random.default_rng(0)
    for number in range(tasks):
        store.add_task(f"task {number}", {"classes": ["ok", "bad"]})
    for first in range(0, examples, 100):
        count = min(100, examples - first)
        x = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        store.append(first // 100 % tasks, x, rng.integers(0, 2, count), [FACTS] * count)


def measure(work: Callable[[], object], repeats: int = REPEATS) -> str:
    """The median and the 99th percentile, and the median of the time that the processor took."""
    times = []
    for _ in range(repeats):
        began, busy = time.perf_counter(), time.process_time()
        work()
        times.append((1000 * (time.perf_counter() - began), 1000 * (time.process_time() - busy)))
    wall, processor = np.array(times).T
    return f"{np.median(wall):9.2f}{np.quantile(wall, 0.99):9.2f}{np.median(processor):9.2f}"


def measure_store(folder: Path, tasks: int, examples: int) -> list[str]:
    """Fill a store and measure what it does."""
    with open_store(folder) as store:
        fill(store, tasks, examples)
    rng, x, y = np.random.default_rng(1), np.zeros((1, 28, 28), np.uint8), np.array([1])
    opened = measure(lambda: open_store(folder).close(), 5)
    with open_store(folder) as store, (folder / "plain").open("wb", buffering=0) as plain:

        def wait_twice() -> None:
            for _ in range(2):
                plain.write(x.tobytes())
                os.fsync(plain.fileno())

        return [
            measure(wait_twice),
            measure(lambda: store.append(int(rng.integers(tasks)), x, y, [FACTS])),
            measure(lambda: store.read(rng.integers(0, examples, 1000)), 50),
            measure(lambda: store.examples(int(rng.integers(tasks))), 20),
            measure(store.list_tasks, 20),
            opened,
        ]


def main(parent: Path) -> None:
    """Print a row for each size; see `measure` for the three numbers of each thing."""
    names = ["two fsyncs", "append 1", "read 1,000", "examples", "list_tasks", "open"]
    print(f"{'tasks':>7}{'examples':>10}" + "".join(f"{name:>27}" for name in names))
    for tasks, examples in SIZES:
        with tempfile.TemporaryDirectory(dir=parent) as folder:
            cells = measure_store(Path(folder), tasks, examples)
        print(f"{tasks:7}{examples:10}" + "".join(f"{cell:>27}" for cell in cells), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else tempfile.gettempdir()))
