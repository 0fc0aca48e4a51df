"""What a run folder says: read without the lock, and also while the run is going on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from anyshot.errors import DataError, InputError
from anyshot.runs.files import Damaged, sha256, unsealed
from anyshot.runs.records import EVENTS, FORMAT, SUMMARY, Event, ExperimentRecord, Summary, Trial, first_problem
from anyshot.runs.upgrade import upgrade_event, upgrade_experiment, upgrade_summary

EXPERIMENT_FILE, EVENTS_FILE, SUMMARY_FILE = "experiment.json", "events.jsonl", "summary.json"
ENVIRONMENT_FILE, CHECKPOINTS_FOLDER = "environment.json", "checkpoints"
KINDS = {"online": ("evaluation", "pretraining"), "offline": ("trial", "test")}  # of events
DEPTH = 3  # folders of folders of run folders are looked into
Read = TypeVar("Read")


class WrongExperiment(DataError):
    """The summary in a run folder belongs to another experiment."""


def read_experiment(folder: Path) -> ExperimentRecord:
    """What a run folder is a run of."""
    return _as_record(folder, *_read_experiment(folder))


def experiment_sha256(folder: Path) -> str:
    """The hash of `experiment.json`, which every other file of the run carries."""
    content, _ = _read_experiment(folder)
    return hash_of(content)


def hash_of(content: Any) -> str:
    """The SHA-256 of JSON content."""
    return sha256(json.dumps(content, allow_nan=False).encode())


def read_format(folder: Path) -> int:
    """The format of a run folder."""
    return _read_experiment(folder)[1]


def read_summary(folder: Path) -> Summary | None:
    """What came out of a run, or None if it is not finished."""
    return read_run(folder)[2]


def read_events(folder: Path) -> list[Event]:
    """The events in a run folder so far, whether or not a process is writing it."""
    return read_run(folder)[1]


def read_run(folder: Path) -> tuple[ExperimentRecord, list[Event], Summary | None]:
    """Everything that a run folder says.

    A last line of the log that is only half there is left out. The log of a finished run must be exactly as it was
    written, and its summary must belong to this `experiment.json`.
    """
    content, format_ = _read_experiment(folder)
    experiment, experiment_hash = _as_record(folder, content, format_), hash_of(content)
    # In this order: after the summary the log does not grow.
    finished, log = (folder / SUMMARY_FILE).exists(), folder / EVENTS_FILE
    summary: Any = _unsealed(folder / SUMMARY_FILE, RERUN) if finished else None
    data = _read_log(log)
    if finished and sha256(data) != _parsed(folder / SUMMARY_FILE, lambda: str(summary["events_sha256"])):
        raise DataError(f"{log} is not as the finished run has written it; {RERUN}")
    events = _events(log, data, format_)
    _check_belongs(log, events, experiment)
    if not finished:
        return experiment, events, None
    if format_ == 1:
        plain = [event.to_json() for event in events]
        summary = _parsed(folder / SUMMARY_FILE, lambda: upgrade_summary(summary, experiment_hash, plain))
    parsed = _parsed(folder / SUMMARY_FILE, lambda: SUMMARY.validate_python(summary))
    if parsed.experiment_sha256 != experiment_hash:
        raise WrongExperiment(
            f"{folder / SUMMARY_FILE} belongs to another {EXPERIMENT_FILE} than the one beside it; bring the right one "
            "back, or start the run in a new folder"
        )
    return experiment, events, parsed


def read_environment(folder: Path) -> list[dict[str, Any]]:
    """Where the run was opened, one entry each time; empty if that file is missing or damaged."""
    try:
        openings = unsealed((folder / ENVIRONMENT_FILE).read_bytes())
    except (Damaged, OSError):
        return []
    return [opening for opening in openings if isinstance(opening, dict)] if isinstance(openings, list) else []


def recorded_devices(folder: Path) -> int | None:
    """How many devices shared the tasks when the run was opened last; None for a new, an old or a finished run."""
    openings = read_environment(folder) if not (folder / SUMMARY_FILE).exists() else []
    before = openings[-1].get("sharing") if openings else None
    return before if type(before) is int and before > 0 else None


def find_runs(places: Sequence[Path]) -> list[Path]:
    """The run folders among these folders and up to three levels in them, each once.

    Raises:
        InputError: a place is no folder, or holds no run folder.
    """
    if not places:
        raise InputError("a run folder is missing; give one or more, or a folder that holds some")
    found: dict[Path, Path] = {}
    for place in places:
        if not place.is_dir():
            raise InputError(f"{place} is " + ("a file, not a run folder" if place.exists() else "not there"))
        levels = ("*/" * depth for depth in range(DEPTH + 1))
        here = next((some for depth in levels if (some := _runs_at(place, depth))), [])
        if not here:
            raise InputError(f"{place} is not a run folder and holds none: there is no {EXPERIMENT_FILE} in it")
        for folder in here:
            found.setdefault(folder.resolve(), folder)
    return list(found.values())


RERUN = "start the run again to have it restored"
RESTORE = {EXPERIMENT_FILE: "bring back a copy of it, or start the run in a new folder", SUMMARY_FILE: RERUN}


def _runs_at(place: Path, depth: str) -> list[Path]:
    return [file.parent for file in sorted(place.glob(f"{depth}{EXPERIMENT_FILE}")) if file.is_file()]


def _read_experiment(folder: Path) -> tuple[dict[str, Any], int]:
    path = folder / EXPERIMENT_FILE
    if not path.is_file():
        raise DataError(f"{folder} is not a run folder: it has no {EXPERIMENT_FILE}")
    content = _unsealed(path, RESTORE[EXPERIMENT_FILE])
    format_ = content.get("format", 1) if isinstance(content, dict) else None
    if type(format_) is not int or format_ < 1:
        raise DataError(f"{path} does not describe an experiment; {RESTORE[EXPERIMENT_FILE]}")
    if format_ > FORMAT:
        raise DataError(f"{path} has format {format_}, and this version reads up to {FORMAT}; install a newer anyshot")
    return content, format_


def _read_log(log: Path) -> bytes:
    try:
        return log.read_bytes() if log.exists() else b""
    except OSError as error:
        raise DataError(f"{log} cannot be read: {error.strerror or error}") from error


def _as_record(folder: Path, content: dict[str, Any], format_: int) -> ExperimentRecord:
    def parse() -> ExperimentRecord:
        return ExperimentRecord.model_validate(upgrade_experiment(content) if format_ == 1 else content)

    return _parsed(folder / EXPERIMENT_FILE, parse)


def _events(log: Path, data: bytes, format_: int) -> list[Event]:
    *lines, rest = data.split(b"\n")
    events: list[Event] = []
    for number, line in enumerate(lines, start=1):
        try:
            content = json.loads(line, parse_constant=_refuse_constant)
            events.append(EVENTS.validate_python(upgrade_event(content) if format_ == 1 else content))
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            if number == len(lines) and not rest and isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
                break  # the last line was being written, or was cut off by a crash
            why = first_problem(error) if isinstance(error, ValidationError) else "it is not an event"
            raise DataError(f"{log} is damaged in line {number} ({why}); {RERUN} from a checkpoint") from error
    return events


def _check_belongs(log: Path, events: Sequence[Event], experiment: ExperimentRecord) -> None:
    """Refuse the log of another kind of run."""
    kinds, shots = KINDS[experiment.kind], experiment.test_shots
    for number, event in enumerate(events, start=1):
        fits = event.kind in kinds
        if isinstance(event, Trial):
            fits = fits and all(values is None or len(values) == len(shots) for values in (event.loss, event.accuracy))
        if not fits:
            raise DataError(
                f"{log} does not belong to the {EXPERIMENT_FILE} beside it, as line {number} shows; bring the right "
                "one back, or start the run in a new folder"
            )


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number that a run writes")


def _parsed(path: Path, parse: Callable[[], Read]) -> Read:
    try:
        return parse()
    except (LookupError, TypeError, AttributeError, ValueError) as error:  # a sealed file of other content
        why = first_problem(error) if isinstance(error, ValidationError) else f"{type(error).__name__}: {error}"
        raise DataError(f"{path} does not hold what a run writes ({why}); {RESTORE[path.name]}") from error


def _unsealed(path: Path, what_to_do: str) -> Any:
    try:
        return unsealed(path.read_bytes())
    except (Damaged, OSError) as why:
        raise DataError(f"{path} is damaged ({why}); {what_to_do}") from why
