"""Stands in for `anyshot run` in tests of the queue: makes the folder of a run, or fails to.

It is started as a program of its own, and imports no JAX. The environment variable FAKE holds JSON: `records`, the
records of the experiments by "PRESET LABEL", and by folder name how a run behaves: fail, wait or stubborn.
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
            sys.exit(130)

    signal.signal(signal.SIGINT, save)
    (folder / "waiting").touch()
    time.sleep(60)
    time.sleep(60 * stubborn)


def main(words: list[str]) -> None:
    """Behave as told."""
    assert words[0] == "run"
    words, settings = (
        (words[: words.index("--set")], words[words.index("--set") + 1 :]) if "--set" in words else (words, [])
    )
    options = dict(zip(words[2::2], words[3::2], strict=True))
    assert options["--checkpoint-seconds"] == "30"
    fake, folder = json.loads(os.environ["FAKE"]), Path(options["--out"])
    print("starting", flush=True)
    how = fake.get(folder.name, "done")
    if how == "fail":
        sys.exit("anyshot: the disk is full; make room\n")
    label = folder.name.rpartition("-s")[0]
    record = fake["records"][f"{words[1]} {label}"]
    assert options["--learner"] == record["learner"]["name"]
    for setting in settings:
        name, value = setting.split("=")
        place, _, name = name.partition(".")
        given = record["learner"]["hyperparameters"] if place == "learner" else record[place]
        assert given[name] == float(value)
    if how in ("wait", "stubborn") and not (folder / "saved").exists():
        begin(folder, record, int(options["--seed"]))
        wait(folder, stubborn=how == "stubborn")
    finish(folder, record, int(options["--seed"]))


if __name__ == "__main__":
    main(sys.argv[1:])
