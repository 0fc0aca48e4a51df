"""Memory and time of a run whose tasks stay on the disk.

    python -m benchmarks.streams write DIR TASKS EXAMPLES   # tasks of 16 numbers an example, two classes
    python -m benchmarks.streams pretend DIR TASKS EXAMPLES # the same in files with holes: zeros that take no room
    python -m benchmarks.streams learn DIR OUT              # learn them all; prints memory and time on the way
    python -m benchmarks.streams ends DIR                   # only the first and the last tasks, the others as received
    python -m benchmarks.streams compare [REPEATS]          # a step on stored tasks against one with data on the device

A task has half of its examples to learn from and half to test on (at most 10). Each arrival brings 10 labels, one step
is taken, and a task ends after one arrival. Memory is that of the process (RssAnon); pages of the tasks' files that the
system keeps, and gives back when memory is short, are counted apart (RssFile).
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import anyshot
from anyshot import Experiment, OnlineProtocol, StoredTasks, TaskSet, make_learner, write_tasks
from anyshot.online import Buffer, OnlineState
from anyshot.runs.drive import run_compiled, start
from anyshot.runs.online import OnlineJob
from anyshot.tasks.stored import ARRAYS, MANIFEST, fingerprint_of, shard_name

LABELS, TEST, FEATURES = 10, 10, 16
SMALL = OnlineProtocol(
    labels_per_arrival=LABELS,
    steps_per_arrival=1,
    max_steps=1,
    max_shots=5,
    validation_size=5,
    tasks_per_update=25,
    test_size=TEST,
)


def draw_tasks(tasks: int, examples: int) -> Iterator[Any]:
    """On which side of a plane of its own is a point?"""
    draw = np.random.default_rng(0)
    for number in range(tasks):
        x = draw.integers(0, 256, (examples, FEATURES), np.uint8)
        y = (x @ draw.normal(size=FEATURES) > 0).astype(np.int8)
        held = min(TEST, examples // 2)
        yield f"task {number}", (x[held:], y[held:]), (x[:held], y[:held])


def pretend_tasks(folder: Path, tasks: int, examples: int, shard_tasks: int = 100_000) -> StoredTasks:
    """A folder as `write_tasks` writes it, whose examples are zeros. The hashes are made up, so do not verify it."""
    held, shards = min(TEST, examples // 2), []
    for number, first in enumerate(range(0, tasks, shard_tasks)):
        count, place = min(shard_tasks, tasks - first), folder / shard_name(number)
        place.mkdir(parents=True)
        for name, dtype, shape in (("x", np.uint8, (count * examples, FEATURES)), ("y", np.int8, (count * examples,))):
            np.lib.format.open_memmap(place / f"{name}.npy", "w+", dtype, shape)
        np.save(place / "names.npy", np.char.add("task ", np.arange(first, first + count).astype(str)))
        np.save(place / "train_counts.npy", np.full(count, examples - held, np.int32))
        np.save(place / "test_counts.npy", np.full(count, held, np.int32))
        shards.append(dict.fromkeys(ARRAYS, "made up"))
    manifest = {"format": 1, "name": "pretended", "num_classes": 2, "shards": shards}
    manifest["fingerprint"] = fingerprint_of(shards, "pretended")
    (folder / MANIFEST).write_text(json.dumps(manifest), "utf-8")
    return StoredTasks(folder)


def make_small(tasks: Any) -> Experiment:
    network = {"kind": "mlp", "hidden": (32,)}
    return Experiment(tasks, make_learner("ftml-vs", tasks, SMALL, network=network, inner_steps=1), SMALL)


def measure_memory() -> dict[str, float]:
    """Megabytes of this process."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return {name: int(lines[name].split()[0]) / 1000 for name in ("RssAnon", "RssFile")}


class Clock:
    """Wall time and CPU time of the process since it was set."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def milliseconds(self, rounds: int) -> tuple[float, float]:
        """Of each round: wall time and CPU time."""
        return 1000 * (time.perf_counter() - self.wall) / rounds, 1000 * (time.process_time() - self.cpu) / rounds


def show(where: str, clock: Clock, rounds: int) -> None:
    memory, (wall, cpu) = measure_memory(), clock.milliseconds(rounds)
    print(
        f"{where:>24}: {wall:7.2f} ms a round ({cpu:.2f} ms of CPU), memory {memory['RssAnon']:,.0f} MB, files "
        f"{memory['RssFile']:,.0f} MB",
        flush=True,
    )


def learn_all(folder: str, out: str, parts: int = 10) -> None:
    """The ordinary run, with its log and its checkpoints."""
    tasks = StoredTasks(folder)
    print(tasks, f"{tasks.nbytes / 1e6:,.0f} MB", flush=True)
    clock, rounds, marks = Clock(), 0, [tasks.num_tasks * part // parts for part in range(1, parts + 1)]
    marks = [min(1000, tasks.num_tasks // 20), *marks]

    def observe(what: str, news: Any) -> None:
        nonlocal clock, rounds
        if what == "compiled":
            clock, rounds = Clock(), 0
        if what != "event":
            return
        rounds += 1
        if news.position + 1 >= marks[0] and news.ended:
            show(f"task {news.position + 1:,}", clock, rounds)
            clock, rounds = Clock(), 0
            marks.pop(0)
            marks.append(sys.maxsize)

    print(anyshot.run(make_small(tasks), out, progress=False, observe=observe))


def learn_ends(folder: str, rounds: int = 300) -> None:
    """The first tasks; then the last, as if all before had been received."""
    tasks = StoredTasks(folder)
    print(tasks, f"{tasks.nbytes / 1e6:,.0f} MB", flush=True)
    job = OnlineJob(make_small(tasks))
    clock = Clock()
    stream: Any = job.load_data()
    state, run = start(job, stream), job.make_run(stream)
    run(state, 0)
    show("started", clock, 1)

    def learn(state: OnlineState, where: str) -> None:
        for part in ("warming up", where):
            clock, done = Clock(), 0
            while done < rounds:
                state, _, more = run(state, rounds - done)
                done += more
            show(part, clock, rounds)

    learn(state, "first tasks")
    last = stream.positions - 2 * rounds - 10  # a task has one or two rounds
    received = jnp.where(jnp.arange(stream.positions) < last, stream.capacities, 0).astype(jnp.int32)
    buffer = Buffer(received, state.buffer.seen, jnp.asarray(last, jnp.int32))
    zero = jnp.zeros((), jnp.int32)
    learn(OnlineState(state.learner, buffer, jnp.asarray(last, jnp.int32), zero, zero, state.finite), "last tasks")


def compare(repeats: int = 5) -> None:
    """Rounds of ten steps: 25 tasks, up to 20 shots and 20 to validate, images of 28 x 28, in turn on both ways."""
    rules = OnlineProtocol(num_tasks=40, max_steps=10**6, advance=False, test_size=100)
    draw = np.random.default_rng(0)
    rows = np.arange(40 * 300).reshape(40, 300)
    x, y = draw.integers(0, 256, (rows.size, 28, 28, 1), np.uint8), draw.integers(0, 10, rows.size, np.int32)
    names = tuple(f"task {number}" for number in range(40))
    tasks = TaskSet("random", x, y, rows[:, :200], rows[:, 200:], names)
    with tempfile.TemporaryDirectory() as place:
        ways: dict[str, list[Any]] = {}
        for name, source in (("on the device", tasks), ("stored", write_tasks(f"{place}/tasks", tasks))):
            network = {"kind": "mlp", "hidden": (64, 64)}
            job = OnlineJob(Experiment(source, make_learner("ftml-vs", source, rules, network=network), rules))
            data: Any = job.load_data()
            state = start(job, data)
            full = Buffer(
                jnp.asarray(data.capacities, jnp.int32), state.buffer.seen, jnp.asarray(data.positions, jnp.int32)
            )
            one, last = jnp.asarray(1, jnp.int32), jnp.asarray(data.positions - 1, jnp.int32)
            late = OnlineState(state.learner, full, last, one, one, state.finite)
            run = run_compiled(job, data) if source is tasks else job.make_run(data)
            ways[name] = [run, late]
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(repeats + 1):
            for name, way in ways.items():
                clock = Clock()
                way[1] = jax.block_until_ready(way[0](way[1], 2)[0])
                times[name].append(clock.milliseconds(2 * rules.steps_per_arrival))
    for name, taken in times.items():
        wall, cpu = np.median(taken[1:], 0)
        print(f"{name:>14}: {wall:.1f} ms a step, {cpu:.1f} ms of CPU")
    ratios = np.array(times["stored"][1:]) / np.array(times["on the device"][1:])
    for kind, ratio in zip(("wall", "CPU"), ratios.T, strict=True):
        print(f"stored / on the device, {kind}: {np.median(ratio):.3f} (from {ratio.min():.3f} to {ratio.max():.3f})")


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    if command == "write":
        print(write_tasks(words[0], draw_tasks(int(words[1]), int(words[2])), name="planes"))
    elif command == "pretend":
        print(pretend_tasks(Path(words[0]), int(words[1]), int(words[2])))
    elif command == "learn":
        learn_all(words[0], words[1])
    elif command == "ends":
        learn_ends(words[0])
    elif command == "compare":
        compare(*map(int, words))
    else:
        sys.exit(str(__doc__))
