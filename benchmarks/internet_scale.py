"""Which part breaks first with 10^9 labels, 10^6 open tasks and 1,000 GPUs: the cost model, and a simulation of steps.

    python -m benchmarks.internet_scale

The network is that of Rainbow MNIST (four convolutions of 32 channels on 28 x 28 x 3), with 5 inner steps and 25 tasks
a GPU. The constants of the GPU were measured on one H200 (benchmarks/meta_step); those of the network and the storage
are from data sheets. In the simulation each GPU takes a random time (5 % spread, and one step in 10,000 is 10 times
slower), and a step ends with the slowest. A million tasks are drawn from on this machine's own buffer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anyshot import Experiment, OnlineProtocol, TaskSet, make_learner
from anyshot.online import Buffer
from anyshot.online.buffer import Sizes
from anyshot.runs.cost import Hardware, predict_cost

# An H200: 3e13 operations a second as measured; 50 GB/s and 10 us a message over 400 Gbit/s InfiniBand; storage of one
# host: an NVMe disk with 5e5 reads and 5 GB a second.
H200 = Hardware(3e13, 2e-4, 3e-4, bandwidth=5e10, latency=1e-5, reads=5e5, read_bandwidth=5e9)
TASKS_PER_GPU, LABELS, OPEN_TASKS = 25, 10**9, 10**6
EVENT_BYTES = 350  # of an evaluation in events.jsonl


def make_experiment(gpus: int) -> Experiment:
    """Rainbow MNIST's sizes, with a meta-batch that grows with the GPUs."""
    draw = np.random.default_rng(0)
    rows = np.arange(2 * 200).reshape(2, 200)
    x, y = draw.integers(0, 256, (rows.size, 28, 28, 3), np.uint8), np.arange(rows.size, dtype=np.int32) % 10
    tasks = TaskSet("random", x, y, rows[:, :100], rows[:, 100:], ("a", "b"))
    rules = OnlineProtocol(tasks_per_update=TASKS_PER_GPU * gpus)
    network = {"kind": "conv4", "channels": 32}
    return Experiment(tasks, make_learner("ftml-vs", tasks, rules, network=network, batching="together"), rules)


def simulate(compute: float, gpus: int, steps: int = 2000) -> float:
    """The mean time of the slowest of so many GPUs."""
    draw = np.random.default_rng(0)
    total = 0.0
    for _ in range(steps):
        taken = compute * draw.lognormal(0.0, 0.05, gpus)
        total += float((taken * np.where(draw.random(gpus) < 1e-4, 10, 1)).max())
    return total / steps


def time_draws(tasks: int) -> tuple[float, float]:
    """Seconds to draw 25 tasks out of so many, and for an arrival of labels, on one core."""
    buffer = Buffer(jnp.full(tasks, 100, jnp.int32), jnp.arange(tasks, dtype=jnp.int32), jnp.asarray(tasks, jnp.int32))
    rules = OnlineProtocol()
    draw = jax.jit(lambda buffer, key: buffer.draw_episodes(Sizes(100), rules, key))
    receive = jax.jit(lambda buffer: buffer.receive(jnp.asarray(3), 4, jnp.asarray(200)))
    found: list[float] = []
    calls: tuple[Callable[[], Any], ...] = (lambda: draw(buffer, jax.random.key(0)), lambda: receive(buffer))
    for call in calls:
        jax.block_until_ready(call())
        began = time.process_time()
        for _ in range(20):
            jax.block_until_ready(call())
        found.append((time.process_time() - began) / 20)
    return found[0], found[1]


def main() -> None:
    """Print the three tables."""
    print("GPUs  compute ms  fixed ms  reduce ms  read ms (each host reads all / its share)  slowest GPU ms  step ms")
    for gpus in (1, 8, 64, 1000):
        cost = predict_cost(make_experiment(gpus), gpus, H200)
        hosts = max(1, gpus // 8)
        slowest = simulate(cost.compute + cost.fixed, gpus)
        step = max(slowest + cost.reduce, cost.read)
        shown = [1000 * value for value in (cost.compute, cost.fixed, cost.reduce, cost.read, cost.read / hosts)]
        print(f"{gpus:4}", *(f"{value:9.3f}" for value in shown), f"{1000 * slowest:9.2f} {1000 * step:9.2f}")
    shared = replace(predict_cost(make_experiment(1000), 1000, H200), read=0.0)
    step = simulate(shared.compute + shared.fixed, 1000) + shared.reduce
    drawn = TASKS_PER_GPU * 1000 * 30
    print(f"\n10^9 labels at 4 an arrival and 10 steps between arrivals: {LABELS / 4 * 10 * step / 86400:,.0f} days")
    print(f"a step draws {drawn:,} examples, so that each label is drawn {LABELS / 4 * 10 * drawn / LABELS:,.0f} times")
    print(f"the log of its evaluations: {LABELS / 4 * EVENT_BYTES / 1e9:,.0f} GB, copied into every checkpoint")
    print(f"examples of 28 x 28 x 3 bytes: {LABELS * 28 * 28 * 3 / 1e12:.1f} TB\n")
    for tasks in (10**3, 10**6, 10**7):
        draw, receive = time_draws(tasks)
        bytes_ = tasks * (4 + 4 + 4 + 16 + 16)
        print(
            f"{tasks:10,} tasks: draw {1e3 * draw:.2f} ms of CPU, arrival {1e3 * receive:.2f} ms, tables "
            f"{bytes_ / 1e6:,.1f} MB"
        )


if __name__ == "__main__":
    main()
