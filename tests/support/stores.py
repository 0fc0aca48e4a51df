"""Examples that are told from their number, and processes that are killed while they append or forget.

`python -m tests.support.stores append|forget FOLDER SEED KILLS` forks such processes and kills them; `hold FOLDER`
keeps a store open.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from anyshot.lifelong.store import Store, open_store

ROOT = Path(__file__).parent.parent.parent
SHAPE = (5, 3)


@contextmanager
def small_store(folder: Path) -> Iterator[Store]:
    """Two tasks and seven examples."""
    with open_store(folder) as store:
        store.add_task("first", {"classes": ["ok", "bad"]})
        store.add_task("second", {})
        append(store, 0, 4)
        append(store, 1, 3)
        yield store


def make_x(numbers: list[int] | np.ndarray) -> np.ndarray:
    """An input that no other number has."""
    return np.array([np.random.default_rng(n).random(SHAPE) for n in numbers], np.float32).reshape(-1, *SHAPE)


def make_facts(numbers: list[int] | np.ndarray) -> list[dict[str, Any]]:
    return [{"number": int(n), "text": "ä" * (int(n) % 7)} for n in numbers]


def append(store: Store, task: int, count: int) -> np.ndarray:
    """Append examples whose input, label and facts are those of their number."""
    first = store.counts.appended
    numbers = np.arange(first, first + count)
    ids = store.append(task, make_x(numbers), 10 * numbers, make_facts(numbers))
    assert ids.tolist() == numbers.tolist()
    return ids


def assert_told_from_number(store: Store, task: int) -> np.ndarray:
    """All examples of a task are as `append` made them; their numbers are returned."""
    examples = store.examples(task)
    assert examples.y.tolist() == (10 * examples.ids).tolist()
    assert examples.facts == make_facts(examples.ids)
    if len(examples.ids):
        np.testing.assert_array_equal(store.read(examples.rows), make_x(examples.ids))
    return examples.ids


def state(store: Store) -> dict[str, Any]:
    """All that a store says."""
    tasks = store.list_tasks()
    examples = {task.number: store.examples(task.number) for task in tasks}
    return {
        "tasks": tasks,
        "labels": {n: (e.ids.tolist(), str(e.y.dtype), e.y.tolist(), e.facts) for n, e in examples.items()},
        "inputs": {n: store.read(e.rows).tolist() for n, e in examples.items()},
        "settings": store.settings,
        "events": store.events(),
        "counts": store.counts,
    }


def all_bytes(folder: Path) -> bytes:
    return b"\0".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def start_script(*argv: str) -> subprocess.Popen[str]:
    """This file as a process."""
    words = [sys.executable, "-m", "tests.support.stores", *argv]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def hold(folder: Path) -> None:
    with open_store(folder):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        time.sleep(60)


def batch_size(first: int) -> int:
    return 1 + first % 3


def append_forever(folder: Path, say: Callable[[int], None]) -> None:
    """Append batches to three tasks; at first, and after each, say how many examples there have been."""
    with open_store(folder) as store:
        for number in range(len(store.list_tasks()), 3):
            store.add_task(f"task {number}", {})
        while True:
            first = store.counts.appended
            say(first)
            append(store, first % 3, batch_size(first))


def check_appended(folder: Path, said: int) -> int:
    """What was said to be there is there, and at most one batch more. How many there are is returned."""
    with open_store(folder) as store:
        there = store.counts.appended
        assert there in (said, said + batch_size(said)), (said, there)
        ids = [assert_told_from_number(store, task.number) for task in store.list_tasks()]
        assert sorted(np.concatenate([*ids, []]).tolist()) == list(range(there))
    return there


def forget_forever(folder: Path, say: Callable[[int], None]) -> None:
    """Forget all tasks, and say the number of the next one; add that, with marked examples; and again."""
    with open_store(folder) as store:
        while True:
            for task in store.list_tasks():
                store.forget(task.number)
            number = store.counts.events
            say(number)
            task = store.add_task(f"<name {number:06d}>", {"note": f"<info {number:06d}>"})
            for _ in range(3):
                x = np.frombuffer(f"<x {number:06d}>".encode(), np.uint8)[None]
                store.append(task, x, np.array([10**14 + number]), [{"note": f"<facts {number:06d}>"}])


def check_forgotten(folder: Path, said: int) -> int:
    """No byte is left of the tasks before the last one. The number of that is returned."""
    with open_store(folder) as store:
        data, tasks = all_bytes(folder), store.list_tasks()
        found = re.findall(rb"<(?:name|info|x|facts) (\d{6})>", data) + re.findall(rb"10{8}(\d{6})", data)
        marks = set(map(int, found))
        assert marks <= {said}, (marks, said)
        assert not tasks or marks  # the search finds what is there
    return said


def kill(what: str, folder: Path, seed: int, kills: int) -> None:
    """Fork processes and kill each at a random instant, then check the folder; prints what was hit."""
    work, check = {"append": (append_forever, check_appended), "forget": (forget_forever, check_forgotten)}[what]
    draws, known = random.Random(seed), 0  # noqa: S311
    hit = {"kills": 0, "opening": 0, "unsaid": 0, "done": 0}
    for _ in range(kills):
        readable, writable = os.pipe()
        pid = os.fork()
        if not pid:
            run_slowly(lambda writable=writable: work(folder, lambda number: write_line(writable, number)))
        os.close(writable)
        with open(readable) as lines:  # noqa: PTH123
            first = lines.readline() if draws.random() < 0.8 else ""  # else it may be killed while it opens the store
            time.sleep(draws.uniform(0, 0.1 if what == "append" else 0.3))
            os.kill(pid, signal.SIGKILL)
            said = [int(line) for line in [first, *lines] if line]
        assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
        last = said[-1] if said else known
        known = check(folder, last)
        hit["kills"] += 1
        hit["opening"] += not said
        hit["done"] += len(said)
        hit["unsaid"] += known > last
    sys.stdout.write(json.dumps(hit))


def write_line(handle: int, number: int) -> None:
    os.write(handle, f"{number}\n".encode())


def run_slowly(work: Callable[[], None]) -> None:
    """Do the work in this process, whose writes take their time, and end the process."""
    fsync, write = os.fsync, os.write

    def slow_fsync(handle: int) -> None:
        time.sleep(0.001)
        fsync(handle)

    def slow_write(handle: int, data: bytes | memoryview) -> int:
        time.sleep(0.001)
        return write(handle, data[: len(data) // 2 + 1] if isinstance(data, memoryview) else data)

    os.fsync, os.write = slow_fsync, slow_write  # type: ignore[assignment]
    try:
        work()
    finally:
        os._exit(1)


if __name__ == "__main__":
    command, where, *numbers = sys.argv[1:]
    hold(Path(where)) if command == "hold" else kill(command, Path(where), *map(int, numbers))
