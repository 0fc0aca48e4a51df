"""Labels until 90 % of a task's test inputs are right: `Lifelong` against its parts and other methods.

    python -m benchmarks.own_tasks digit-pairs 10        # the set, and the number of seeds
    python -m benchmarks.own_tasks table                 # the tables of all results so far

Sets: digit-pairs (which of two digits is it; 20 tasks), rainbow-digits (ten digits in 20 of 56 looks), alphabets (five
characters of an Omniglot alphabet; 20 tasks; needs the data set). Labels come one at a time, in an order that the seed
fixes for all methods. A task ends when at least 90 % of its test inputs are right, or after 60 labels. Between tasks
every learner makes the same number of updates. Results are JSON lines in benchmarks/out.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats  # type: ignore[import-untyped]
from sklearn.datasets import load_digits

from anyshot import Lifelong, load_tasks
from anyshot.lifelong.from_scratch import fit_classes
from anyshot.lifelong.task import Task

OUT = Path(__file__).parent / "out" / "own_tasks.jsonl"
TARGET, MOST, UPDATES = 0.9, 60, 100
MLP: dict[str, Any] = {"network": {"kind": "mlp", "hidden": [64]}}
METHODS = ("lifelong", "ftml-vs", "ftml", "toe", "protonet", "scratch")


class Pool(NamedTuple):
    """A task: inputs and labels to learn from in the order in which they come, and others to test on."""

    name: str
    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


def draw_digit_pairs(draw: np.random.Generator) -> Iterator[Pool]:
    digits = load_digits()
    x = (digits.images / 16).astype(np.float32).reshape(-1, 64)
    for number in range(20):
        first, second = draw.choice(10, 2, replace=False)
        rows = draw.permutation(np.flatnonzero((digits.target == first) | (digits.target == second)))
        y = (digits.target[rows] == second).astype(int)
        yield Pool(f"{number}", x[rows[:MOST]], y[:MOST], x[rows[MOST:]], y[MOST:])


def draw_rainbow_digits(draw: np.random.Generator) -> Iterator[Pool]:
    tasks = load_tasks("rainbow-digits")
    for task in draw.permutation(tasks.num_tasks)[:20]:
        rows, test = draw.permutation(np.asarray(tasks.train_rows[task]))[:MOST], np.asarray(tasks.test_rows[task])
        x, y = np.asarray(tasks.x).reshape(len(tasks.x), -1), np.asarray(tasks.y)
        yield Pool(tasks.task_names[task], x[rows], y[rows], x[test], y[test])


def draw_alphabets(draw: np.random.Generator) -> Iterator[Pool]:
    tasks = load_tasks("omniglot")
    upright = [name.rsplit(" ", 2)[0] if name.endswith(" 0") else "" for name in tasks.task_names]
    names = np.array(upright)  # the alphabet of each character; characters that were turned have none
    images = np.asarray(tasks.x).reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(-1, 196).astype(np.float32)
    images = images / images.max()
    for alphabet in draw.permutation(np.unique(names[names != ""]))[:20]:
        characters = draw.choice(np.flatnonzero(names == alphabet), 5, replace=False)
        rows = np.asarray(tasks.train_rows)[characters]
        order = [draw.permutation(row) for row in rows]
        train, test = (np.concatenate([row[part] for row in order]) for part in (slice(12), slice(12, None)))
        y, test_y = np.repeat(np.arange(5), 12), np.repeat(np.arange(5), rows.shape[1] - 12)
        shuffle = draw.permutation(len(train))
        yield Pool(str(alphabet), images[train[shuffle]], y[shuffle], images[test], test_y)


SETS: dict[str, Callable[[np.random.Generator], Iterator[Pool]]] = {
    "digit-pairs": draw_digit_pairs,
    "rainbow-digits": draw_rainbow_digits,
    "alphabets": draw_alphabets,
}


def predict(task: Task, method: str, x: np.ndarray) -> np.ndarray:
    """Probabilities by the mixture, or by the learner alone."""
    if method == "lifelong":
        return task.predict_proba(x)
    rows = task._home.encode(x)
    return task._experts.predict(task._learning(), rows)[0]


def follow(pool: Pool, classes: int, life: Lifelong | None, method: str) -> tuple[int, float, float]:
    """Labels until the target, the sum of test losses on the way, and the last accuracy."""
    task = life.task(pool.name, classes=list(range(classes))) if life else None
    loss = 0.0
    for labels in range(len(pool.y) + 1):
        if task is not None:
            found = predict(task, method, pool.test_x)
        else:
            found = fit_classes(pool.x[:labels], pool.y[:labels], classes).predict(pool.test_x)
        loss -= float(np.mean(np.log(0.99 * found[np.arange(len(pool.test_y)), pool.test_y] + 0.01 / classes)))
        accuracy = float(np.mean(found.argmax(axis=1) == pool.test_y))
        if accuracy >= TARGET or labels == len(pool.y):
            break
        if task is not None:
            task.observe(pool.x[labels : labels + 1], pool.y[labels : labels + 1])
    if life is not None and task is not None:
        if task.labels:
            task.close()
        life.learn(updates=UPDATES)
    return labels, loss, accuracy


def measure(name: str, seed: int, method: str, **changes: Any) -> dict[str, Any]:
    pools = list(SETS[name](np.random.default_rng(seed)))
    classes = max(int(pool.y.max()) for pool in pools) + 1
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        learner = "ftml-vs" if method == "lifelong" else method
        life = None if method == "scratch" else Lifelong(folder, learner=learner, seed=seed, **{**MLP, **changes})
        found = [follow(pool, classes, life, method) for pool in pools]
        if life is not None:
            life.close()
    labels, loss, accuracy = zip(*found, strict=True)
    return {
        "set": name, "seed": seed, "method": method, "labels": sum(labels), "loss": sum(loss),
        "mastered": sum(one >= TARGET for one in accuracy), "by_task": labels, "tasks": len(pools),
        "seconds": round(time.perf_counter() - started, 1), **changes,
    }  # fmt: skip


def print_tables() -> None:
    results = pd.DataFrame([json.loads(line) for line in OUT.read_text().splitlines()])
    for name, of_set in results.groupby("set"):
        print(f"\n{name}, {of_set['tasks'].iloc[0]} tasks")
        wide = of_set.pivot_table(index="seed", columns="method", values="labels")
        for method in (one for one in METHODS if one in wide):
            mine = of_set[of_set["method"] == method]
            line = f"  {method:10s} labels {mine['labels'].mean():6.1f} ± {mine['labels'].std():5.1f}"
            line += f"  loss {mine['loss'].mean():6.1f}  mastered {mine['mastered'].mean():4.1f}  (n = {len(mine)})"
            if method != "lifelong" and "lifelong" in wide:
                less = (wide["lifelong"] - wide[method]).dropna()
                half = stats.t.ppf(0.975, len(less) - 1) * less.sem()
                low, high = less.mean() - half, less.mean() + half
                line += f"  lifelong less this {less.mean():+.1f} [{low:+.1f}, {high:+.1f}]"
            print(line)


def main() -> None:
    if sys.argv[1:] == ["table"]:
        print_tables()
        return
    name, seeds = sys.argv[1], int(sys.argv[2])
    OUT.parent.mkdir(exist_ok=True)
    done = {(one["set"], one["seed"], one["method"]) for one in map(json.loads, _lines())}
    for seed in range(seeds):
        for method in METHODS:
            if (name, seed, method) not in done:
                result = measure(name, seed, method)
                print({key: value for key, value in result.items() if key != "by_task"}, flush=True)
                with OUT.open("a") as file:
                    file.write(json.dumps(result) + "\n")


def _lines() -> list[str]:
    return OUT.read_text().splitlines() if OUT.exists() else []


if __name__ == "__main__":
    main()
