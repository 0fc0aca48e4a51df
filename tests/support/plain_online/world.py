"""The stream, and draws from what has been received, with lists."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Point = tuple[Any, Any, Any]  # row (or pair of rows) of the pool, input, label
Points = list[Point]


def bits_of(key: Any, shape: tuple[int, ...]) -> Any:
    """32 random bits each, as Python integers."""
    return np.asarray(jax.random.bits(key, shape, jnp.uint32)).tolist()


@dataclass
class World:
    """The order of the tasks, what arrives of each one, what it is tested on, and what draws that anew."""

    unit: int
    order: list[int]
    train: list[Points]
    test: list[Points]
    draw_test: Callable[[Any, int], Points]


def make_world(tasks: Any, protocol: Any, key: Any) -> World:
    pairs = type(tasks).__name__ == "PairTasks"
    x, y, parts = np.asarray(tasks.x), np.asarray(tasks.y), {"train": tasks.train_rows, "test": tasks.test_rows}
    number = len(tasks.task_names)
    positions = number if protocol.num_tasks is None else protocol.num_tasks
    of_order, of_train, of_test = jax.random.split(key, 3)
    order_bits = np.asarray(jax.random.bits(of_order, (number,), "uint32")).tolist()
    shuffled_tasks = [task for _, task in sorted((b, task) for task, b in enumerate(order_bits))]
    order = (shuffled_tasks if protocol.shuffle_tasks else list(range(number)))[:positions]

    def single(one: Any, task: int, count: int, part: str) -> Points:
        rows = np.asarray(parts[part])[task].tolist()
        row_bits = np.asarray(jax.random.bits(one, (len(rows),), "uint32")).tolist()
        chosen = [rows[place] for _, place in sorted((b, place) for place, b in enumerate(row_bits))][:count]
        return [(row, x[row], y[row]) for row in chosen]

    def pair(one: Any, task: int, count: int, part: str) -> Points:
        rows = np.asarray(parts[part]).tolist()
        each = len(rows[task])
        b = bits_of(one, (6, math.ceil(count / 2)))
        found = []
        for c in range(math.ceil(count / 2)):
            reference = b[0][c] % each
            others = list(range(reference + 1, reference + each))
            positive = others[b[3][c] % (each - 1)] % each
            classes = [other % number for other in range(task + 1, task + number)]
            stranger = classes[b[4][c] % (number - 1)]
            same = (rows[task][reference], rows[task][positive])
            different = (rows[task][b[1][c] % each], rows[stranger][b[2][c] % each])
            found += [different, same] if b[5][c] % 2 else [same, different]
        return [((r, q), np.stack([x[r], x[q]]), int(y[r] == y[q])) for r, q in found[:count]]

    wanted = math.ceil(protocol.max_steps / protocol.steps_per_arrival) * protocol.labels_per_arrival
    capacity = wanted if pairs else min(wanted, tasks.train_rows.shape[1])
    draw = pair if pairs else single
    train_keys, test_keys = jax.random.split(of_train, positions), jax.random.split(of_test, positions)
    return World(
        2 if pairs else 1,
        order,
        [draw(train_keys[p], order[p], capacity, "train") for p in range(positions)],
        [draw(test_keys[p], order[p], protocol.test_size, "test") for p in range(positions)],
        lambda one, p: draw(one, order[p], protocol.test_size, "test"),
    )


def shuffled(points: Points, bits: list[int], unit: int) -> Points:
    """Whole units in random order."""
    units = [points[start : start + unit] for start in range(0, len(points), unit)]
    order = [place for _, place in sorted((bits[place] >> 1, place) for place in range(len(units)))]
    return [point for place in order for point in units[place]]


def draw_episodes(world: World, buffer: list[Points], seen: list[int], protocol: Any, key: Any) -> list[Any]:
    """For each task of a meta-batch its position, D^tr and D^val (section 5.2, steps 1 to 4)."""
    units = len(world.train[0]) // world.unit
    found = []
    for bits in bits_of(key, (protocol.tasks_per_update, 2 + units * (2 if protocol.overlap else 1))):
        position = seen[bits[0] % len(seen)]
        points = buffer[position]
        largest = min(len(points) if protocol.overlap else len(points) // 2, protocol.max_shots)
        possible = [shots for shots in range(largest + 1) if shots % world.unit == 0]
        shots = possible[bits[1] % len(possible)]
        order = shuffled(points, bits[2 : 2 + units], world.unit)
        others = shuffled(points, bits[2 + units :], world.unit) if protocol.overlap else order[shots:]
        found.append((position, order[:shots], others[: protocol.validation_size]))
    if protocol.borrow:
        keys = jax.random.split(jax.random.fold_in(key, 1), protocol.tasks_per_update)
        return [(t, with_all_classes(world, buffer[:t], a, k), b) for (t, a, b), k in zip(found, keys, strict=True)]
    return found


def with_all_classes(world: World, earlier: list[Points], support: Points, key: Any) -> Points:
    """One datapoint of each class that the support lacks, the first among 500 of earlier tasks (section 6.2)."""
    candidates = draw_flat(world, earlier, 500, key)
    classes = 1 + max(int(y) for points in world.train for _, _, y in points)
    borrowed = []
    for c in range(classes):
        if all(int(y) != c for _, _, y in support):
            borrowed += [point for point in candidates if int(point[2]) == c][:1]
    return support + borrowed


def draw_flat(world: World, tasks: list[Points], size: int, key: Any) -> Points:
    """A batch with replacement, whole units at a time; nothing if there is nothing."""
    pool = [
        points[at : at + world.unit] for points in tasks for at in range(0, len(points) - world.unit + 1, world.unit)
    ]
    if not pool:
        return []
    chosen = [pool[b % len(pool)] for b in bits_of(key, (math.ceil(size / world.unit),))]
    return [point for unit in chosen for point in unit][:size]


def draw_support(world: World, points: Points, protocol: Any, key: Any) -> Points:
    """What an evaluation adapts on."""
    shots = min(len(points) // protocol.points_per_shot, protocol.max_shots)
    bits = bits_of(key, (len(world.train[0]) // world.unit,))
    return shuffled(points, bits, world.unit)[: shots - shots % world.unit]


@dataclass
class Drawn:
    """What one update is given. Everything can be drawn; a method takes what it wants."""

    episodes: list[Any]
    batch: Points
    current: Points
    memory: Points
    memory_task: list[int]


def draw(world: World, buffer: list[Points], seen: list[int], position: int, protocol: Any, key: Any) -> Drawn:
    keys = jax.random.split(key, 4)
    remembered = [[(t, point) for point in buffer[t][: protocol.memory_per_task]] for t in range(position)]
    memory = draw_flat(world, remembered, protocol.batch_size, keys[3])
    return Drawn(
        draw_episodes(world, buffer, seen, protocol, keys[0]),
        draw_flat(world, buffer, protocol.batch_size, keys[1]),
        draw_flat(world, [buffer[position]] if buffer[position] else buffer, protocol.batch_size, keys[2]),
        [point for _, point in memory],
        [task for task, _ in memory],
    )
