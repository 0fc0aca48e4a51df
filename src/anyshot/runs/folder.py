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
from anyshot.runs.files import Damaged, replace_file, sealed, sha256, sync_folder, unsealed, write_all, writing
from anyshot.runs.lock import LOCK, only_writer
from anyshot.runs.reading import EVENTS, EXPERIMENT, SUMMARY, read_events, read_experiment, read_summary
from anyshot.runs.sameness import check_same

__all__ = ["RunFolder", "read_events", "read_experiment", "read_summary"]

ENVIRONMENT, CHECKPOINTS = "environment.json", "checkpoints"


class RunFolder:
    """A run folder that this process alone writes.

    `experiment.json` says what the run is of, `environment.json` where it was opened, `events.jsonl` what happened,
    `checkpoints/` where to go on, `summary.json` that it is finished; `lock` is for the one writer. A run that goes on
    from what `resume` returns, and computes the same each time, ends with the same bytes in events, checkpoints and
    summary however often it was killed. `environment.json` is not part of that promise.
    """

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self.path = path
        self._warn = warn
        self._log: int | None = None  # open for appending once `resume` has said where the log goes on
        self._written = hashlib.sha256()  # of the log

    @classmethod
    @contextmanager
    def opened(
        cls,
        path: Path,
        experiment: dict[str, Any],
        environment: dict[str, Any],
        warn: Callable[[str], None],
    ) -> Iterator[RunFolder]:
        """Create a run folder, or open one of the same experiment, and be its only writer.

        Args:
            path: The folder. It is a run folder once `experiment.json` is there.
            experiment: All that the result depends on, as JSON.
            environment: Where it runs, as JSON; added to those of earlier openings.
            warn: Told, in one sentence, of each thing that was damaged and has been healed.
        """
        wanted = json.loads(json.dumps(experiment, allow_nan=False))  # as it will be read again
        with writing(path):
            _check_free(path)
            path.mkdir(parents=True, exist_ok=True)
        with only_writer(path):
            folder = cls(path, warn)
            with writing(path):
                _check_free(path)
                folder._remove_leftovers()
                if (path / EXPERIMENT).exists():
                    check_same(path, read_experiment(path), wanted)
                else:
                    replace_file(path / EXPERIMENT, sealed(wanted))
                    sync_folder(path.parent)
                folder._add_environment(environment)
                folder._check_finished()
            try:
                yield folder
            finally:
                folder._close_log()

    @property
    def finished(self) -> bool:
        """Whether the run has come to its end."""
        return (self.path / SUMMARY).exists()

    def resume(self) -> Checkpoint | None:
        """Go back to the newest good checkpoint, or to the beginning (None) if there are no checkpoints.

        The log becomes what it was then; checkpoints that are damaged and a summary are removed, until the run has
        come there again.
        """
        self._close_log()
        checkpoint = checkpoints.load(self.path / CHECKPOINTS, self._warn)
        events, log = (checkpoint.events if checkpoint else b""), self.path / EVENTS
        with writing(self.path):
            (self.path / SUMMARY).unlink(missing_ok=True)
            if checkpoint:
                checkpoints.tidy(self.path / CHECKPOINTS, checkpoint.number)
            if not (log.read_bytes() if log.exists() else b"").startswith(events):
                self._warn(f"{log} is damaged and is replaced by the copy in its newest checkpoint")
                replace_file(log, events)
            self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            os.ftruncate(self._log, len(events))
            os.fsync(self._log)
            sync_folder(self.path)
        self._written = hashlib.sha256(events)
        return checkpoint

    def append(self, events: Sequence[dict[str, Any]]) -> None:
        """Add events to the log, one line of JSON each; a number that is not finite raises ValueError."""
        lines = [json.dumps(event, allow_nan=False, separators=(",", ":")) + "\n" for event in events]
        data = "".join(lines).encode()
        with writing(self.path):
            write_all(self._open_log(), data)
        self._written.update(data)

    def save(self, number: int, arrays: dict[str, np.ndarray], info: dict[str, Any]) -> None:
        """Make a checkpoint to go on from: larger numbers are later."""
        checkpoints.save(self.path / CHECKPOINTS, Checkpoint(number, arrays, info, self._durable_log()))

    def finish(self, summary: dict[str, Any]) -> None:
        """Say what came out. The run is finished then."""
        content = {"summary": summary, "events_sha256": sha256(self._durable_log())}
        with writing(self.path):
            replace_file(self.path / SUMMARY, sealed(content))

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
            data = (self.path / EVENTS).read_bytes() if (self.path / EVENTS).exists() else b""
        if sha256(data) != self._written.hexdigest():
            raise DataError(
                f"{self.path / EVENTS} is not what this run has written to it; leave it alone and start the run again: "
                "it goes on from its last checkpoint"
            )
        return data

    def _remove_leftovers(self) -> None:
        """Remove what killed processes have left; they are dead, or they would hold the lock."""
        for parent in (self.path, self.path / CHECKPOINTS):
            for leftover in parent.glob(".unfinished-*"):
                shutil.rmtree(leftover, ignore_errors=True)

    def _add_environment(self, environment: dict[str, Any]) -> None:
        place, openings = self.path / ENVIRONMENT, []
        if place.exists():
            try:
                openings = unsealed(place.read_bytes())
            except Damaged as why:
                self._warn(f"{place} is damaged ({why}) and is begun anew; the run does not depend on it")
        replace_file(place, sealed([*openings, environment]))

    def _check_finished(self) -> None:
        """A summary that is damaged, or of another log, counts for nothing: the run then has its end to do again."""
        try:
            if self.finished:
                read_events(self.path)
        except DataError as why:
            self._warn(f"{why}, as is done now")
            (self.path / SUMMARY).unlink()


def _check_free(path: Path) -> None:
    """Refuse what is neither a run folder nor a folder to make one of."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file; a run needs a folder, new or empty")
    if path.exists() and not (path / EXPERIMENT).exists():
        # A process that was killed while it made the folder may have left these.
        others = [p.name for p in path.iterdir() if p.name != LOCK and not p.name.startswith(".unfinished-")]
        if others:
            raise InputError(
                f"{path} is no run folder and not empty (it holds {min(others)}, but no {EXPERIMENT}); "
                "choose a new or empty folder"
            )
