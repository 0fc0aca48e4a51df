"""What a run folder says, for reports: without the lock, and also while the run is going on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from anyshot.errors import DataError
from anyshot.runs.files import Damaged, sha256, unsealed

EXPERIMENT, EVENTS, SUMMARY = "experiment.json", "events.jsonl", "summary.json"


def read_experiment(path: Path) -> dict[str, Any]:
    """What a run folder is a run of."""
    if not (path / EXPERIMENT).is_file():
        raise DataError(f"{path} is no run folder: it has no {EXPERIMENT}")
    return _unsealed(path / EXPERIMENT, "bring back a copy of it, or start the run in a new folder")


def read_summary(path: Path) -> dict[str, Any] | None:
    """What came out of a run, or None if it is not finished."""
    content = _read_finished(path)
    return content and content["summary"]


def read_events(path: Path) -> list[dict[str, Any]]:
    """The events in a run folder so far, whether or not a process is writing it.

    A last line that is only half there is left out. The log of a finished run must be exactly as it was written.
    """
    read_experiment(path)
    finished, log = _read_finished(path), path / EVENTS  # in this order: after the summary the log does not grow
    data = log.read_bytes() if log.exists() else b""
    if finished and sha256(data) != finished["events_sha256"]:
        raise DataError(f"{log} is not as the finished run has written it; start the run again to have it restored")
    *lines, rest = data.split(b"\n")
    events = []
    for number, line in enumerate(lines, start=1):
        try:
            events.append(_event(line))
        except ValueError as error:
            if number < len(lines) or rest:
                raise DataError(
                    f"{log} is damaged in line {number}; start the run again to have it restored from a checkpoint"
                ) from error
    return events


def _event(line: bytes) -> dict[str, Any]:
    event = json.loads(line)
    if not isinstance(event, dict):
        raise ValueError(f"an event is a JSON object, got {event!r}")
    return event


def _read_finished(path: Path) -> dict[str, Any] | None:
    if not (path / SUMMARY).exists():
        return None
    return _unsealed(path / SUMMARY, "start the run again to have it restored")


def _unsealed(path: Path, what_to_do: str) -> Any:
    try:
        return unsealed(path.read_bytes())
    except (Damaged, OSError) as why:
        raise DataError(f"{path} is damaged ({why}); {what_to_do}") from why
