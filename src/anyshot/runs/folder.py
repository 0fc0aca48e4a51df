"""One experiment on disk, which can be killed at any moment and ends as if it never had been."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from anyshot.errors import DataError, InputError
from anyshot.runs import checkpoints
from anyshot.runs.checkpoints import Checkpoint
from anyshot.runs.files import replace_file, sealed, sha256, sync_folder, write_all, writing
from anyshot.runs.lock import LOCK, only_writer
from anyshot.runs.reading import (
    CHECKPOINTS_FOLDER,
    ENVIRONMENT_FILE,
    EVENTS_FILE,
    EXPERIMENT_FILE,
    SUMMARY_FILE,
    WrongExperiment,
    experiment_sha256,
    read_environment,
    read_experiment,
    read_format,
    read_run,
)
from anyshot.runs.records import FORMAT, Event, ExperimentRecord, Summary
from anyshot.runs.sameness import check_same


class RunFolder:
    """A run folder that this process alone writes.

    `experiment.json` says what the run is of, `environment.json` where it was opened, `events.jsonl` what happened,
    `checkpoints/` where to go on, `summary.json` that it is finished; `lock` is for the one writer. A run that goes on
    from what `resume` returns, and computes the same each time, ends with the same bytes in events, checkpoints and
    summary however often it was killed. `environment.json` is not part of that promise.
    """

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self.path = path
        self.experiment_sha256 = ""
        self._warn = warn
        self._log: int | None = None  # open for appending once `resume` has said where the log goes on
        self._written = hashlib.sha256()  # of the log

    @classmethod
    @contextmanager
    def opened(
        cls,
        path: Path,
        experiment: ExperimentRecord,
        environment: dict[str, Any],
        warn: Callable[[str], None],
        defaults: dict[str, Any] | None = None,
    ) -> Iterator[RunFolder]:
        """Create a run folder, or open one of the same experiment, and be its only writer.

        Args:
            path: the folder. It is a run folder once `experiment.json` is there.
            experiment: everything that the result depends on.
            environment: where it runs, as JSON; added to those of earlier openings.
            warn: called with one sentence for each thing that was damaged and has been healed.
            defaults: of the learner's hyperparameters, for folders written before it had all of them.
        """
        content = experiment.model_dump(mode="json")
        with writing(path):
            _check_free(path)
            path.mkdir(parents=True, exist_ok=True)
        with only_writer(path):
            folder = cls(path, warn)
            with writing(path):
                _check_free(path)
                folder._remove_leftovers()
                if (path / EXPERIMENT_FILE).exists():
                    _check_format(path)
                if _has_begun(path):
                    check_same(path, read_experiment(path), experiment, defaults or {})
                else:  # an experiment that failed before its first round leaves the folder to the next
                    replace_file(path / EXPERIMENT_FILE, sealed(content))
                    sync_folder(path.parent)
                folder.experiment_sha256 = experiment_sha256(path)
                folder._add_environment(environment)
                folder._check_finished()
            try:
                yield folder
            finally:
                folder._close_log()

    @property
    def finished(self) -> bool:
        """Whether the run has come to its end."""
        return (self.path / SUMMARY_FILE).exists()

    def resume(self) -> Checkpoint | None:
        """Go back to the newest good checkpoint, or to the beginning (None) if there are no checkpoints.

        The log becomes what it was then; checkpoints that are damaged and a summary are removed, until the run has
        come there again.
        """
        self._close_log()
        checkpoint = checkpoints.load(self.path / CHECKPOINTS_FOLDER, self.experiment_sha256, self._warn)
        events, log = (checkpoint.events if checkpoint else b""), self.path / EVENTS_FILE
        with writing(self.path):
            (self.path / SUMMARY_FILE).unlink(missing_ok=True)
            if checkpoint:
                checkpoints.tidy(self.path / CHECKPOINTS_FOLDER, checkpoint.number)
            if not (log.read_bytes() if log.exists() else b"").startswith(events):
                self._warn(f"{log} is damaged and is replaced by the copy in its newest checkpoint")
                replace_file(log, events)
            self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o666)
            os.ftruncate(self._log, len(events))
            os.fsync(self._log)
            sync_folder(self.path)
        self._written = hashlib.sha256(events)
        return checkpoint

    def append(self, events: Sequence[Event]) -> None:
        """Add events to the log, one line of JSON each."""
        lines = [json.dumps(event.to_json(), allow_nan=False, separators=(",", ":")) + "\n" for event in events]
        data = "".join(lines).encode()
        with writing(self.path):
            write_all(self._open_log(), data)
        self._written.update(data)

    def save(self, number: int, arrays: dict[str, np.ndarray], info: dict[str, Any]) -> None:
        """Make a checkpoint to go on from: larger numbers are later."""
        checkpoint = Checkpoint(number, arrays, info, self._durable_log())
        checkpoints.save(self.path / CHECKPOINTS_FOLDER, checkpoint, self.experiment_sha256)

    def finish(self, make_summary: Callable[..., Summary]) -> None:
        """Write what came out. The run is finished then.

        Args:
            make_summary: makes the summary, given `experiment_sha256` and `events_sha256`.
        """
        events_sha256 = sha256(self._durable_log())
        summary = make_summary(experiment_sha256=self.experiment_sha256, events_sha256=events_sha256)
        with writing(self.path):
            replace_file(self.path / SUMMARY_FILE, sealed(summary.to_json()))

    def _open_log(self) -> int:
        assert self._log is not None, "resume() says where the log goes on: call it first"
        return self._log

    def _close_log(self) -> None:
        if self._log is not None:
            os.close(self._log)
            self._log = None

    def _durable_log(self) -> bytes:
        with writing(self.path):
            os.fsync(self._open_log())
            data = (self.path / EVENTS_FILE).read_bytes() if (self.path / EVENTS_FILE).exists() else b""
        if sha256(data) != self._written.hexdigest():
            raise DataError(
                f"{self.path / EVENTS_FILE} is not what this run has written to it; leave it alone and start the run "
                "again: it goes on from its last checkpoint"
            )
        return data

    def _remove_leftovers(self) -> None:
        """Remove what killed processes have left; they are dead, or they would hold the lock."""
        for parent in (self.path, self.path / CHECKPOINTS_FOLDER):
            for leftover in parent.glob(".unfinished-*"):
                shutil.rmtree(leftover, ignore_errors=True)

    def _add_environment(self, environment: dict[str, Any]) -> None:
        place, openings = self.path / ENVIRONMENT_FILE, read_environment(self.path)
        if place.exists() and not openings:
            self._warn(f"{place} is damaged and is begun anew; the run does not depend on it")
        replace_file(place, sealed([*openings, environment]))

    def _check_finished(self) -> None:
        """A summary that is damaged, or of another log, counts for nothing: the run then has its end to do again."""
        try:
            if self.finished:
                read_run(self.path)
        except WrongExperiment:  # nothing here can be trusted to be of this experiment
            raise
        except DataError as why:
            self._warn(f"{why}, as is done now")
            (self.path / SUMMARY_FILE).unlink()


def _check_free(path: Path) -> None:
    """Refuse what is neither a run folder nor a folder to make one of."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file; a run needs a folder, new or empty")
    if path.exists() and not (path / EXPERIMENT_FILE).exists():
        # A process that was killed while it made the folder may have left these.
        others = [p.name for p in path.iterdir() if p.name != LOCK and not p.name.startswith(".unfinished-")]
        if others:
            raise InputError(
                f"{path} is not a run folder and not empty (it holds {min(others)}, but no {EXPERIMENT_FILE}); "
                "choose a new or empty folder"
            )


def _has_begun(path: Path) -> bool:
    """Whether a run folder holds anything that was computed."""
    log = path / EVENTS_FILE
    events = log.stat().st_size if log.exists() else 0
    return bool(events or checkpoints.list_checkpoints(path / CHECKPOINTS_FOLDER) or (path / SUMMARY_FILE).exists())


def _check_format(path: Path) -> None:
    """Refuse to go on in a folder that an older version has begun: its log has other lines."""
    format_ = read_format(path)
    read_experiment(path)  # which refuses what is none
    if format_ != FORMAT:
        raise InputError(
            f"{path} was begun by an older version of anyshot (format {format_}, now {FORMAT}); it can be compared and "
            "reported, but to go on use that version, or start in a new folder"
        )
