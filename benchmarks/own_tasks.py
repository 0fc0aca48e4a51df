"""Labels until 90 % of a task's test inputs are right: `Lifelong` against its parts and other methods.

    python -m benchmarks.own_tasks digit-pairs 0 10      # the set, the first seed, and the number of seeds
    python -m benchmarks.own_tasks digit-pairs 0 10 lifelong scratch    # only these methods
    python -m benchmarks.own_tasks table                 # the tables of all results so far

Sets: digit-pairs (which of two digits is it; 20 tasks), rainbow-digits (ten digits in 20 of 56 looks), alphabets (five
characters of an Omniglot alphabet; 20 tasks; needs the data set). Labels come one at a time, in an order that the seed
fixes for all methods. A task ends when at least 90 % of its test inputs are right, or after 60 labels. Between tasks
every learner makes updates until there were two for each label. Results are JSON lines in benchmarks/out.
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
from anyshot.lifelong import from_scratch, with_kernel
from anyshot.lifelong.engine import AllLabelled, Labelled
from anyshot.lifelong.experts import predict_adapted
from anyshot.lifelong.home import UPDATES_PER_LABEL
from anyshot.lifelong.learning import LearnerSettings, Learning
from anyshot.lifelong.settings import complete_settings
from anyshot.lifelong.task import Task

OUT = Path(__file__).parent / "out" / "own_tasks.jsonl"
TARGET, MOST = 0.9, 60
MLP: dict[str, Any] = {"network": {"kind": "mlp", "hidden": [64]}}
# Step sizes and strengths were chosen on seed 10, by the loss summed over the three sets, from the same few values.
STEPS: dict[str, dict[str, float]] = {"ftml": {"inner_rate": 0.3}}
STRENGTHS = {"scratch": 1.0, "scratch, C = 10": 10.0}
METHODS = ("lifelong", *STRENGTHS, "kernel", "protonet", "ridge-head", "ftml-vs", "ftml", "toe")


class Pool(NamedTuple):
    """A task: inputs and labels to learn from in the order in which they come, and others to test on."""

    name: str
    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


def draw_digit_pairs(draw: np.random.Generator) -> Iterator[Pool]:
    digits = load_digits()
    x = (digits.images / 16).astype(np.float32)
    for number in range(20):
        first, second = draw.choice(10, 2, replace=False)
        rows = draw.permutation(np.flatnonzero((digits.target == first) | (digits.target == second)))
        y = (digits.target[rows] == second).astype(int)
        yield Pool(f"{number}", x[rows[:MOST]], y[:MOST], x[rows[MOST:]], y[MOST:])


def draw_rainbow_digits(draw: np.random.Generator) -> Iterator[Pool]:
    tasks = load_tasks("rainbow-digits")
    for task in draw.permutation(tasks.num_tasks)[:20]:
        rows, test = draw.permutation(np.asarray(tasks.train_rows[task]))[:MOST], np.asarray(tasks.test_rows[task])
        x, y = np.asarray(tasks.x), np.asarray(tasks.y)
        yield Pool(tasks.task_names[task], x[rows], y[rows], x[test], y[test])


def draw_alphabets(draw: np.random.Generator) -> Iterator[Pool]:
    tasks = load_tasks("omniglot")
    upright = [name.rsplit(" ", 2)[0] if name.endswith(" 0") else "" for name in tasks.task_names]
    names = np.array(upright)  # the alphabet of each character; characters that were turned have none
    images = np.asarray(tasks.x).reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).astype(np.float32)
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


def follow(pool: Pool, classes: int, predict: Callable[[int], np.ndarray]) -> tuple[int, float, float]:
    """Labels until the target, the sum of test losses on the way, and the last accuracy.

    `predict` gives the probabilities of the test inputs after so many labels.
    """
    loss = 0.0
    for labels in range(len(pool.y) + 1):
        found = predict(labels)
        loss -= float(np.mean(np.log(0.99 * found[np.arange(len(pool.test_y)), pool.test_y] + 0.01 / classes)))
        accuracy = float(np.mean(found.argmax(axis=1) == pool.test_y))
        if accuracy >= TARGET:
            break
    return labels, loss, accuracy


def live(pools: list[Pool], classes: int, seed: int) -> Iterator[tuple[int, float, float]]:
    """By `Lifelong`, as anyone would use it."""
    with tempfile.TemporaryDirectory() as folder, Lifelong(folder, seed=seed, **MLP) as life:
        for pool in pools:
            task = life.task(pool.name, classes=list(range(classes)))

            def predict(labels: int, task: Task = task, pool: Pool = pool) -> np.ndarray:
                if labels:
                    task.observe(pool.x[labels - 1 : labels], pool.y[labels - 1 : labels])
                return task.predict_proba(pool.test_x)

            yield follow(pool, classes, predict)
            if task.labels:
                task.close()
            life.learn()


def learn_alone(pools: list[Pool], classes: int, seed: int, learner: str) -> Iterator[tuple[int, float, float]]:
    """By one learner of the catalogue, with the same draws and updates, in memory."""
    x, settings = (
        np.concatenate([pool.x for pool in pools]),
        complete_settings({"learner": learner, "seed": seed, **MLP}),
    )
    if learner in STEPS:
        settings["hyperparameters"] |= STEPS[learner]
    learning = Learning(LearnerSettings(**settings), x.shape[1:], str(x.dtype), classes, True, lambda rows: x[rows])
    labelled: list[Labelled] = []
    for number, pool in enumerate(pools):
        rows = np.arange(MOST) + MOST * number

        def predict(labels: int, pool: Pool = pool, rows: np.ndarray = rows) -> np.ndarray:
            shots = Labelled(rows[:labels], pool.y[:labels].astype(np.int32))
            return predict_adapted(learning, shots, range(classes), pool.test_x)

        found = follow(pool, classes, predict)
        labelled.append(Labelled(rows[: found[0]], pool.y[: found[0]].astype(np.int32)))
        labels = AllLabelled.of(labelled, number)
        due = UPDATES_PER_LABEL * int(labels.counts.sum()) - learning.now.updates
        learning.learn(lambda labels=labels: labels, lambda made, due=due: made < due)  # type: ignore[misc]
        yield found


def begin_anew(pools: list[Pool], classes: int, method: str) -> Iterator[tuple[int, float, float]]:
    """By logistic regression on each task alone, linear or with a kernel."""
    for pool in pools:

        def predict(labels: int, pool: Pool = pool) -> np.ndarray:
            x, y = pool.x[:labels], pool.y[:labels]
            if method in STRENGTHS:
                return from_scratch.fit_classes(x, y, classes, STRENGTHS[method]).predict(pool.test_x)
            return with_kernel.fit_classes(x, y, classes).predict(pool.test_x)

        yield follow(pool, classes, predict)


def measure(name: str, seed: int, method: str) -> dict[str, Any]:
    pools = list(SETS[name](np.random.default_rng(seed)))
    classes = max(int(pool.y.max()) for pool in pools) + 1
    started = time.perf_counter()
    if method == "lifelong":
        found = list(live(pools, classes, seed))
    elif method in (*STRENGTHS, "kernel"):
        found = list(begin_anew(pools, classes, method))
    else:
        found = list(learn_alone(pools, classes, seed, method))
    labels, loss, accuracy = zip(*found, strict=True)
    return {
        "set": name, "seed": seed, "method": method, "labels": sum(labels), "loss": sum(loss),
        "mastered": sum(one >= TARGET for one in accuracy), "by_task": labels, "tasks": len(pools),
        "seconds": round(time.perf_counter() - started, 1),
    }  # fmt: skip


def print_tables() -> None:
    results = pd.DataFrame([json.loads(line) for line in OUT.read_text().splitlines()])
    results = results[results["seed"] < 10]
    for name, of_set in results.groupby("set"):
        print(f"\n{name}, {of_set['tasks'].iloc[0]} tasks")
        wide = of_set.pivot_table(index="seed", columns="method", values="labels")
        for method in (one for one in METHODS if one in wide):
            mine = of_set[of_set["method"] == method]
            line = f"  {method:15s} labels {mine['labels'].mean():6.1f} ± {mine['labels'].std():5.1f}"
            line += f"  loss {mine['loss'].mean():6.1f}  mastered {mine['mastered'].mean():4.1f}  (n = {len(mine)})"
            print(line + say_difference(wide, method))
    sets = results["set"].nunique()
    wide = results.pivot_table(index="seed", columns="method", values="labels", aggfunc="sum")
    wide = wide[results.pivot_table(index="seed", columns="method", values="labels", aggfunc="count") == sets]
    print(f"\nall {sets} sets together")
    for method in (one for one in METHODS if one in wide):
        print(f"  {method:15s} labels {wide[method].mean():6.1f}" + say_difference(wide, method))


def say_difference(wide: pd.DataFrame, method: str) -> str:
    """How many labels less than a method `Lifelong` needed, paired by seed, with a 95 % interval."""
    if method == "lifelong" or "lifelong" not in wide:
        return ""
    less = (wide["lifelong"] - wide[method]).dropna()
    half = stats.t.ppf(0.975, len(less) - 1) * less.sem()
    low, high = less.mean() - half, less.mean() + half
    return f"  lifelong less this {less.mean():+.1f} [{low:+.1f}, {high:+.1f}] (n = {len(less)})"


def main() -> None:
    if sys.argv[1:] == ["table"]:
        print_tables()
        return
    name, first, seeds, methods = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:] or METHODS
    OUT.parent.mkdir(exist_ok=True)
    done = {(one["set"], one["seed"], one["method"]) for one in map(json.loads, _lines())}
    for seed in range(first, first + seeds):
        for method in methods:
            if (name, seed, method) not in done:
                result = measure(name, seed, method)
                print({key: value for key, value in result.items() if key != "by_task"}, flush=True)
                with OUT.open("a") as file:
                    file.write(json.dumps(result) + "\n")


def _lines() -> list[str]:
    return OUT.read_text().splitlines() if OUT.exists() else []


if __name__ == "__main__":
    main()
