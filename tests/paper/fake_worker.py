"""Stands in for a worker of sweeps in tests of the queue: makes the folders of runs, or fails to.

It is started as a program of its own, and imports no JAX. The environment variable FAKE holds JSON: `records`, the
records of the experiments by the names of their candidates, and by folder name how a run behaves: fail, wait or
stubborn.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from anyshot.runs.files import sealed, sha256
from anyshot.runs.reading import hash_of
from anyshot.sweeps.execute import Order


def evaluation(position: int, step: int, loss: float, total: float, **more: Any) -> dict[str, Any]:
    """A line of the log; a task ends at step 10."""
    return {
        "kind": "evaluation",
        "position": position,
        "task": f"task {position}",
        "step": step,
        "labels": step,
        "shots": step // 2,
        "loss": loss,
        "accuracy": 0.5,
        "mastered": False,
        "ended": step == 10,
        "total_loss": total,
        "total_labels": 10 * position + step,
        **more,
    }


def begin(folder: Path, record: dict[str, Any], seed: int) -> dict[str, Any]:
    """Make the folder of a run that has evaluated once."""
    folder.mkdir(parents=True, exist_ok=True)
    record = record | {"seed": seed}
    (folder / "experiment.json").write_bytes(sealed(record))
    openings = folder / "environment.json"
    before = json.loads(openings.read_bytes())["content"] if openings.exists() else []
    openings.write_bytes(sealed([*before, {"device": "abacus", "opened": "2026-01-01T00:00:00Z"}]))
    (folder / "events.jsonl").write_text(json.dumps(evaluation(0, 0, 2.0, 2.0)) + "\n")
    return record


def finish(folder: Path, record: dict[str, Any], seed: int) -> None:
    """Make the folder of a finished run; its loss is the length of its learner's name plus the seed."""
    record = begin(folder, record, seed)
    if record["kind"] == "offline":
        tests = [
            {"kind": "test", "shots": n, "loss": 1.0, "loss_error": 0.1, "accuracy": 0.5 + n / 100, "episodes": 9}
            for n in record["protocol"]["test_shots"]
        ]
        events = [{"kind": "trial", "step": 400, "score": 0.5, "better": True, "ended": True}, *tests]
        summary = {"steps": 400, "best_step": 400, "tests": tests}
    else:
        loss = float(len(record["learner"]["name"]) + seed)
        places = [(position, step) for position in range(2) for step in (0, 10)]
        events = [evaluation(*place, loss, (count + 1) * loss) for count, place in enumerate(places)]
        summary = {"tasks": 2, "mastered": 0, "total_loss": 4 * loss, "total_labels": 20}
    log = "".join(json.dumps(event) + "\n" for event in events).encode()
    (folder / "events.jsonl").write_bytes(log)
    hashes = {"experiment_sha256": hash_of(record), "events_sha256": sha256(log)}
    (folder / "summary.json").write_bytes(sealed({"format": 2, "kind": record["kind"], **hashes, **summary}))


def wait(folder: Path, stubborn: bool) -> None:
    """Wait for Ctrl-C and save then; a stubborn run sleeps on."""

    def save(number: int, frame: object) -> None:
        with (folder / "saved").open("a") as saved:
            saved.write("asked\n")
        if not stubborn:
            time.sleep(0.5)  # in which a second request would be seen
            answer("stopped", "it was asked to stop")
            sys.exit(0)

    signal.signal(signal.SIGINT, save)
    (folder / "waiting").touch()
    time.sleep(60)
    time.sleep(60 * stubborn)


def answer(kind: str, why: str = "") -> None:
    print(json.dumps([kind, why]), flush=True)


def behave(order: Order) -> None:
    """Do as told."""
    assert order.checkpoint_seconds == 30
    fake, trial = json.loads(os.environ["FAKE"]), order.leg.trial
    folder = Path(order.out) / trial.name
    how = fake.get(folder.name, "done")
    if how == "fail":
        answer("failed", "the disk is full; make room")
        return
    record = fake["records"][trial.candidate.name]
    assert trial.candidate.learner == record["learner"]["name"]
    for name, value in trial.candidate.settings.items():
        place, _, name = name.partition(".")
        given = record["learner"]["hyperparameters"] if place == "learner" else record[place]
        assert given[name] == value
    if how in ("wait", "stubborn") and not (folder / "saved").exists():
        begin(folder, record, trial.seed)
        wait(folder, stubborn=how == "stubborn")
    finish(folder, record, trial.seed)
    answer("done")


if __name__ == "__main__":
    for line in sys.stdin:
        behave(Order.from_json(line))
