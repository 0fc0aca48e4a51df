"""Which inputs to label next: the three ways of `Task.suggest` on the same tasks, lived through by `Lifelong`.

    python -m benchmarks.suggest digit-pairs 55 0 4    # the kind of task, how many, the seed, and labels at once
    python -m benchmarks.suggest table                 # the table of all results so far

Kinds: digit-pairs and looks, as in benchmarks/calibration.py. Half of a task's data can be labelled, the other half
tests. Each way has a folder of its own and buys 48 labels of each task, some at once. Which of them were random is
given on to `observe`, as users should. Results are JSON lines in benchmarks/out.
"""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
from scipy import stats  # type: ignore[import-untyped]

from anyshot import Lifelong
from anyshot.lifelong.sequences import confidence_sequence
from anyshot.lifelong.suggestions import How
from benchmarks.calibration import KINDS, MLP, Data

OUT = Path(__file__).parent / "out" / "suggest.jsonl"
MOST, FIRST, LOOKS = 48, 20, (4, 8)
TARGETS = {"digit-pairs": 0.95, "looks": 0.7}
WAYS: tuple[How, ...] = get_args(How)


def live_through(life: Lifelong, name: str, data: Data, how: How, at_once: int) -> dict[str, Any]:
    """Buy labels as suggested; the true accuracy before each, and which intervals held it."""
    x, y = np.concatenate([data.x, data.test_x]), np.concatenate([data.y, data.test_y])
    pool, test = np.arange(0, len(x), 2), np.arange(1, len(x), 2)
    task = life.task(name, classes=sorted(set(y.tolist())))
    true, past = [], {}
    for count in range(0, MOST + 1, at_once):
        true.append(float(np.mean(task.predict(x[test]) == y[test])))
        if count in LOOKS and (found := task.estimate(x[pool]).past) is not None:
            past[count] = [found.low <= true[-1] <= found.high, found.high - found.low]
        if count < MOST:
            choice = task.suggest(x[pool], at_once, how)
            picked = pool[choice.places]
            task.observe(x[picked], y[picked], random=choice.random)
            pool = np.setdiff1d(pool, picked)
    table = task.table
    task.close()
    right, drawn = table["right"].to_numpy(float), table["random"].to_numpy(bool)
    of_label = np.repeat(true[:-1], at_once)
    return {"accuracy": true, "past": past, "own": hold(right[drawn], of_label[drawn]), "all": hold(right, of_label)}


def hold(right: np.ndarray, true: np.ndarray) -> list[float]:
    """Whether the 90 % sequence held the mean true accuracy at every look, its last width, and how far off its mean."""
    ends = [confidence_sequence(right[:n].sum(), n) for n in range(1, len(right) + 1)]
    means = true.cumsum() / np.arange(1, len(true) + 1)
    held = all(low <= mean <= high for (low, high), mean in zip(ends, means, strict=True))
    return [float(held), ends[-1][1] - ends[-1][0], float(right.mean() - true.mean())]


def measure(kind: str, tasks: int, seed: int, at_once: int) -> None:
    draw = np.random.default_rng(seed)
    with ExitStack() as stack:
        folders = [stack.enter_context(tempfile.TemporaryDirectory()) for _ in WAYS]
        lives = [stack.enter_context(Lifelong(folder, seed=seed, **MLP)) for folder in folders]
        for number in range(tasks):
            data = KINDS[kind](draw)
            for how, life in zip(WAYS, lives, strict=True):
                found = live_through(life, f"{number}", data, how, at_once)
                life.learn()
                named = {"kind": kind, "seed": seed, "at_once": at_once, "task": number, "how": how}
                with OUT.open("a") as file:
                    file.write(json.dumps({**named, **found}) + "\n")


def print_table() -> None:
    results = pd.DataFrame([json.loads(line) for line in OUT.read_text().splitlines()])
    for (kind, _), of_kind in results.groupby(["kind", "at_once"]):
        target, at_once = TARGETS[str(kind)], int(of_kind["at_once"].iloc[0])
        curves = of_kind.pivot(index=["seed", "task"], columns="how", values="accuracy").dropna()
        found: dict[tuple[str, str], pd.Series] = {}
        for how in WAYS:
            found[how, "labels"] = pd.Series([count_labels(curve, target, at_once) for curve in curves[how]])
            found[how, "mean accuracy"] = pd.Series([float(np.mean(curve)) for curve in curves[how]])
        print(f"{kind}, {at_once} at once: {len(curves)} tasks; labels until {target:.0%}, mean accuracy on the way")
        for how in WAYS:
            cells = []
            for name in ("labels", "mean accuracy"):
                cell = f"{name} {found[how, name].mean():.3f}"
                if how != "random":
                    more = found[how, name] - found["random", name]
                    half = stats.t.ppf(0.975, len(more) - 1) * more.sem()
                    cell += f", less random's {more.mean():+.3f} [{more.mean() - half:+.3f}, {more.mean() + half:+.3f}]"
                cells.append(cell)
            print(f"  {how:13s} {'; '.join(cells)}")
            mine = of_kind[of_kind["how"] == how]
            for name, what in (("own", "random labels"), ("all", "all labels")):
                held, width, off = np.array(mine[name].tolist()).T
                print(
                    f"    {what:13s}: {held.mean():.1%} hold, width {width.mean():.2f}, mean off by {off.mean():+.3f}"
                )
            later = mine[mine["task"] >= FIRST]["past"]
            for count in LOOKS:
                past = [of[str(count)] for of in later if str(count) in of]
                if past:
                    held, width = np.mean(past, axis=0)
                    print(f"    past tasks, {count:2d} labels: {held:.1%} of {len(past)} hold, width {width:.2f}")


def count_labels(curve: list[float], target: float, at_once: int) -> int:
    """Labels until the target; those that would have come next if it was never reached."""
    return at_once * int(np.argmax([accuracy >= target for accuracy in curve] + [True]))


def main() -> None:
    if sys.argv[1:] == ["table"]:
        print_table()
        return
    OUT.parent.mkdir(exist_ok=True)
    measure(sys.argv[1], *map(int, sys.argv[2:5]))


if __name__ == "__main__":
    main()
