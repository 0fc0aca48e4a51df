"""What sharing the tasks of a meta-batch among devices gives, and how good the cost model of docs/scaling.md is.

    python -m benchmarks.devices scaling [REPEATS]   # 1, 2, 4 and 8 devices: strong and weak scaling
    python -m benchmarks.devices model [REPEATS]     # the model's prediction against a measurement, in CPU seconds

A CPU is cut into eight JAX devices. With two cores, more than two devices cannot be faster. What such a machine can
show is whether sharing adds work: the CPU time of a step, over all devices, should not grow with their number. Both
tables take CPU time (time.process_time), which other programs on the machine hardly change. Wall times are minima.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")

import equinox as eqx
import jax
import numpy as np

from anyshot import Experiment, OnlineProtocol, TaskSet, make_learner
from anyshot.devices import replicate, share_tasks
from anyshot.runs.cost import Cost, Hardware, predict_cost
from anyshot.shots import Episodes, Shots

DEVICES = (1, 2, 4, 8)


def make_experiment(tasks: int, shots: int, network: dict[str, Any], inner_steps: int = 3) -> Experiment:
    """Random images of 14 x 14."""
    draw = np.random.default_rng(0)
    rows = np.arange(2 * 100).reshape(2, 100)
    x, y = draw.integers(0, 256, (rows.size, 14, 14, 1), np.uint8), draw.integers(0, 10, rows.size, np.int32)
    y[:10] = np.arange(10)
    data = TaskSet("random", x, y, rows[:, :60], rows[:, 60:], ("a", "b"))
    rules = OnlineProtocol(tasks_per_update=tasks, max_shots=shots, validation_size=shots, test_size=20)
    made = make_learner("ftml-vs", data, rules, network=network, inner_steps=inner_steps, batching="in turn")
    return Experiment(data, made, rules)


def make_update(experiment: Experiment, devices: int) -> Callable[[], None]:
    """One compiled meta-update; numbers of shots are spread evenly from 0 to M."""
    rules: Any = experiment.protocol
    tasks, shots = rules.tasks_per_update, rules.max_shots
    draw = np.random.default_rng(0)

    def drawn(counts: np.ndarray) -> Shots:
        x = draw.integers(0, 256, (tasks, shots, 14, 14, 1), np.uint8)
        return Shots(*map(jax.numpy.asarray, (x, draw.integers(0, 10, (tasks, shots), np.int32), counts)))

    spread = np.round(np.linspace(0, shots, tasks)).astype(np.int32)
    episodes = Episodes(drawn(spread), drawn(np.full(tasks, shots, np.int32)))
    learner: Any = experiment.learner
    objective = learner.objective
    with share_tasks(devices):
        state = replicate(learner.init(jax.random.key(0)))
        arguments = replicate((state.weights, state.rate, episodes))
        compiled = eqx.filter_jit(objective.value_and_grad)
        jax.block_until_ready(compiled(*arguments))

    def update() -> None:
        with share_tasks(devices):
            jax.block_until_ready(compiled(*arguments))

    return update


def measure(updates: dict[Any, Callable[[], None]], repeats: int) -> dict[Any, tuple[float, float]]:
    """Milliseconds of each: CPU time (median) and wall time (least), measured in turn."""
    found: dict[Any, list[tuple[float, float]]] = {name: [] for name in updates}
    for _ in range(repeats):
        for name, update in updates.items():
            before = time.process_time(), time.perf_counter()
            for _ in range(5):
                update()
            after = time.process_time(), time.perf_counter()
            found[name].append((200 * (after[0] - before[0]), 200 * (after[1] - before[1])))
    return {name: (float(np.median([c for c, _ in all_])), min(w for _, w in all_)) for name, all_ in found.items()}


def measure_scaling(repeats: int = 5) -> None:
    network = {"kind": "mlp", "hidden": (64, 64)}
    updates = {("strong", n): make_update(make_experiment(24, 10, network), n) for n in DEVICES}
    updates |= {("weak", n): make_update(make_experiment(8 * n, 10, network), n) for n in DEVICES}
    found = measure(updates, repeats)
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    print("kind    devices  tasks  CPU ms  wall ms  CPU time a task, of one device's")
    for (kind, n), (cpu, wall) in found.items():
        tasks, before = (24, 24) if kind == "strong" else (8 * n, 8)
        ratio = cpu / tasks / (found[kind, 1][0] / before)
        print(f"{kind:6} {n:8} {tasks:6} {cpu:7.1f} {wall:8.1f} {ratio:9.2f}")


def check_model(repeats: int = 5) -> None:
    """Two constants are fitted to all rows (work and fixed part), then each row is predicted."""
    mlp, conv = {"kind": "mlp", "hidden": (64, 64)}, {"kind": "conv4", "channels": 8}
    wide = {"kind": "mlp", "hidden": (256, 256)}
    kinds: dict[str, tuple[Any, ...]] = {
        "24 tasks, 10 shots": (24, 10, mlp),
        "48 tasks": (48, 10, mlp),
        "8 tasks": (8, 10, mlp),
        "20 shots": (24, 20, mlp),
        "256 hidden units": (24, 10, wide),
        "6 inner steps": (24, 10, mlp, 6),
        "convolutions": (24, 10, conv),
    }
    experiments = {name: make_experiment(*settings) for name, settings in kinds.items()}
    found = measure({name: make_update(experiment, 1) for name, experiment in experiments.items()}, repeats)
    unit = {name: predict_cost(experiment, 1, Hardware(1.0, 0, 0)).compute for name, experiment in experiments.items()}
    operations = np.array([unit[name] for name in found])
    taken = np.array([found[name][0] / 1000 for name in found])
    # A step's fixed part and the time of an operation, by least squares of the relative error.
    design = np.stack([operations, np.ones_like(operations)], 1) / taken[:, None]
    (slope, fixed), *_ = np.linalg.lstsq(design, np.ones_like(taken), rcond=None)
    hardware = Hardware(1 / slope, max(fixed, 0.0), 0.0)
    print(f"fitted: {hardware.operations:.2e} operations a second, {1000 * hardware.step:.2f} ms fixed")
    print(f"{'':20} million operations  measured ms  predicted ms  ratio")
    for name, experiment in experiments.items():
        cost: Cost = predict_cost(experiment, 1, hardware)
        measured = found[name][0]
        ratio = 1000 * cost.seconds / measured
        print(f"{name:20} {unit[name] / 1e6:18,.0f} {measured:12.2f} {1000 * cost.seconds:13.2f} {ratio:6.2f}")


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    {"scaling": measure_scaling, "model": check_model}[command](*map(int, words))
