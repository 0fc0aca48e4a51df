"""Stands in for `anyshot run` and `anyshot offline` in tests of the queue: makes the folder of a run, or fails to."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from anyshot.runs.files import sealed, sha256
from anyshot.runs.offline_presets import OFFLINE_PRESETS
from anyshot.runs.presets import PRESETS


def event(position: int, step: int, loss: float, **more: Any) -> dict[str, Any]:
    return {
        "position": position,
        "task": f"task {position}",
        "step": step,
        "labels": step,
        "shots": step // 2,
        "loss": loss,
        "accuracy": 0.5,
        "mastered": False,
        "ended": step == 10,
        "total_loss": loss,
        "total_labels": 10 * position + step,
        **more,
    }


def begin(folder: Path, preset: str, learner: str, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    settings = (PRESETS | OFFLINE_PRESETS)[preset][0].model_dump(mode="json")
    described = {"learner": learner, "seed": seed, "fingerprint": "f00", "settings": settings}
    (folder / "experiment.json").write_bytes(sealed(described))
    openings = folder / "environment.json"
    before = json.loads(openings.read_bytes())["content"] if openings.exists() else []
    now = {"device": "abacus", "opened": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    openings.write_bytes(sealed([*before, now]))
    (folder / "events.jsonl").write_text(json.dumps(event(0, 0, 2.0)) + "\n")


def finish(folder: Path, preset: str, learner: str, seed: int) -> None:
    begin(folder, preset, learner, seed)
    summary: dict[str, Any] = {"tasks": 2}
    if preset in OFFLINE_PRESETS:
        shots = OFFLINE_PRESETS[preset][0].plan.test_shots
        tests = [
            {"test": True, "shots": n, "accuracy": 0.5 + n / 100, "accuracy_error": 0.1, "episodes": 9} for n in shots
        ]
        trial = {"step": 400, "score": 0.5, "better": True, "ended": True}
        events, summary = [trial, *tests], {"steps": 400, "best_step": 400, "test": tests}
    else:
        loss = float(len(learner) + seed)
        events = [event(position, step, loss) for position in range(2) for step in (0, 10)]
    log = "".join(json.dumps(one) + "\n" for one in events).encode()
    (folder / "events.jsonl").write_bytes(log)
    (folder / "summary.json").write_bytes(sealed({"summary": summary, "events_sha256": sha256(log)}))


def wait(folder: Path, stubborn: bool) -> None:
    """Until Ctrl-C, at which it saves, unless it is stubborn; the second time it does not wait."""

    def save(number: int, frame: object) -> None:
        with (folder / "saved").open("a") as saved:
            saved.write("asked\n")
        if not stubborn:
            time.sleep(0.5)  # in which a second request is seen
            sys.exit(130)

    signal.signal(signal.SIGINT, save)
    (folder / "waiting").touch()
    time.sleep(60)
    if stubborn:  # asked, it sleeps on
        time.sleep(60)


def main(words: list[str]) -> None:
    preset = words[1]
    options = dict(zip(words[2::2], words[3::2], strict=True))
    assert options["--checkpoint-seconds"] == "30"
    assert words[0] == ("offline" if preset in OFFLINE_PRESETS else "run")
    folder, run = Path(options["--out"]), (preset, options["--learner"], int(options["--seed"]))
    print("starting", flush=True)
    how = json.loads(os.environ.get("FAKE", "{}")).get(folder.name, "done")
    if how == "fail":
        sys.exit("anyshot: the disk is full; make room\n")
    if how in ("wait", "stubborn") and not (folder / "saved").exists():
        begin(folder, *run)
        wait(folder, stubborn=how == "stubborn")
    finish(folder, *run)


if __name__ == "__main__":
    main(sys.argv[1:])
