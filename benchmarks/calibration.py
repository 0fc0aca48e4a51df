"""How often intervals hold, and how good advice is, when tasks are lived through by `Lifelong`.

    python -m benchmarks.calibration digit-pairs 190 0     # the kind of task, how many tasks, and the seed
    python -m benchmarks.calibration table                 # the table of all results so far

Kinds: digit-pairs (which of two digits), looks (ten digits, in a look of rainbow-digits), tabular (on which side of a
noisy plane are ten numbers). Of each task 60 labels are bought, one at a time. Before each, the accuracy on other data
is taken, which nobody has in practice. The first 20 tasks only prepare the estimate from past tasks. What was seen is
kept as JSON lines in benchmarks/out; the table is made from it, so a change of the estimates needs no new tasks.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

from anyshot import Lifelong, load_tasks
from anyshot.lifelong.advice import STOP_LEVEL, advise
from anyshot.lifelong.estimates import Past
from anyshot.lifelong.looks import from_json, to_json

OUT = Path(__file__).parent / "out" / "calibration.jsonl"
MOST, FIRST, LOOKS = 60, 20, (5, 10, 20, 30)
ASKED = (*range(11), *range(12, MOST + 1, 2))  # labels at which advice is asked
TARGETS = {"digit-pairs": 0.9, "looks": 0.7, "tabular": 0.8}  # within reach for some tasks
MLP: dict[str, Any] = {"network": {"kind": "mlp", "hidden": [64]}}


class Data(NamedTuple):
    """The labels of a task in the order in which they come, inputs without labels, and others to test on."""

    x: np.ndarray
    y: np.ndarray
    pool: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray) -> Data:
        """The first ones are labelled."""
        return cls(x[:MOST], y[:MOST], x[MOST : MOST + 50], x[MOST:], y[MOST:])


def draw_digit_pair(draw: np.random.Generator) -> Data:
    digits = load_digits()
    first, second = draw.choice(10, 2, replace=False)
    rows = draw.permutation(np.flatnonzero((digits.target == first) | (digits.target == second)))
    x = (digits.images[rows] / 16).astype(np.float32)
    return Data.of(x, (digits.target[rows] == second).astype(int))


def draw_look(draw: np.random.Generator) -> Data:
    tasks = load_tasks("rainbow-digits")
    task = draw.integers(tasks.num_tasks)
    rows = draw.permutation(np.concatenate([np.asarray(tasks.train_rows[task]), np.asarray(tasks.test_rows[task])]))
    return Data.of(np.asarray(tasks.x)[rows], np.asarray(tasks.y)[rows])


def draw_tabular(draw: np.random.Generator) -> Data:
    normal = np.full(10, 0.7) + draw.normal(size=10)
    x = draw.normal(size=(MOST + 500, 10)).astype(np.float32)
    return Data.of(x, (x @ normal + draw.exponential(1.0) * draw.normal(size=len(x)) > 0).astype(int))


KINDS: dict[str, Callable[[np.random.Generator], Data]] = {
    "digit-pairs": draw_digit_pair,
    "looks": draw_look,
    "tabular": draw_tabular,
}


def live_through(life: Lifelong, name: str, data: Data) -> dict[str, Any]:
    """Buy all labels, and write down what was seen, what was estimated from own labels, and what was true."""
    task = life.task(name, classes=sorted(set(data.y.tolist()) | set(data.test_y.tolist())))
    true, seen, held, width = [], [], True, 1.0
    for count in range(MOST + 1):
        true.append(float(np.mean(task.predict(data.test_x) == data.test_y)))
        own = task.estimate().own
        if count:
            held &= own.low <= float(np.mean(true[:-1])) <= own.high
            width = own.high - own.low
        if count in ASKED and task._home.learning is not None:
            look = task._looks.look(task._home.learning, task._home.encode(data.pool))
            seen.append({"look": to_json(look), "own": [own.low, own.high], "true": true[-1]})
        if count < MOST:
            task.observe(data.x[count : count + 1], data.y[count : count + 1])
    task.close()
    return {"true": true, "own held": held, "own width": width, "seen": seen, "looks": task._record.info["looks"]}


def measure(kind: str, tasks: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder, Lifelong(folder, seed=seed, **MLP) as life:
        for number in range(tasks):
            found = live_through(life, f"{number}", KINDS[kind](draw))
            life.learn()
            with OUT.open("a") as file:
                file.write(json.dumps({"kind": kind, "seed": seed, "task": number, **found}) + "\n")


def judge(lived: pd.DataFrame, target: float) -> Iterator[dict[str, Any]]:
    """What the estimate from past tasks, and advice, would have been in each task, after those before it."""
    past = [[from_json(look) for look in looks] for looks in lived["looks"]]
    tasks: list[Any] = lived.to_dict("records")
    for number in range(FIRST, len(tasks)):
        known = Past.of(past[:number], "accuracy")
        assert known.across is not None, "twenty tasks are closed"
        found: dict[str, Any] = {"stop": None}
        most, earlier = known.across.most_labels, None
        for seen in tasks[number]["seen"]:
            look, true = from_json(seen["look"]), seen["true"]
            if look.labels in LOOKS:
                past_only = known.across.estimate(look)
                found[str(look.labels)] = past_only.low <= true <= past_only.high, past_only.high - past_only.low
            estimate = known.across.estimate(look, STOP_LEVEL, earlier if look.labels > most else None)
            earlier = look if look.labels <= most else earlier
            own, left = tuple(seen["own"]), MOST + 1 - look.labels
            advice = advise(estimate, own, look.labels, known.curves, target=target, price=1, budget=left)
            if found["stop"] is None and advice.action == "stop":
                found["stop"] = look.labels, true
        reached = [count for count, accuracy in enumerate(tasks[number]["true"]) if accuracy >= target]
        yield {**found, "reached": reached[0] if reached else None}


def print_table() -> None:
    results = pd.DataFrame([json.loads(line) for line in OUT.read_text().splitlines()])
    every = []
    for kind, of_kind in results.groupby("kind"):
        target = TARGETS[str(kind)]
        judged = pd.DataFrame([one for _, lived in of_kind.groupby("seed") for one in judge(lived, target)])
        every.append(judged)
        print_intervals(str(kind), of_kind, judged)
        stops = judged[judged["stop"].notna()]
        if len(stops):
            at, accuracy = np.array(stops["stop"].tolist()).T
            print(
                f"  advice: stop in {len(stops)}, of which {np.mean(accuracy < target):.1%} below the target {target};"
            )
            beyond = (at - stops["reached"]).dropna()
            print(f"  {beyond.mean():.1f} labels (median {beyond.median():.0f}) beyond the first moment at the target")
    print_intervals("all kinds", results, pd.concat(every))


def print_intervals(kind: str, lived: pd.DataFrame, judged: pd.DataFrame) -> None:
    print(f"{kind}: {len(lived)} tasks, {len(judged)} of them with past tasks; 90 % intervals")
    held, width = lived["own held"].mean(), lived["own width"].mean()
    print(f"  from own labels: {held:.1%} hold at all looks, width {width:.2f}")
    for count in LOOKS:
        holds, widths = zip(*judged[str(count)], strict=True)
        print(f"  from past tasks, {count} labels: {np.mean(holds):.1%} hold, width {np.mean(widths):.2f}")


def main() -> None:
    if sys.argv[1:] == ["table"]:
        print_table()
        return
    OUT.parent.mkdir(exist_ok=True)
    measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))


if __name__ == "__main__":
    main()
