"""Mirroring a run's event log to a tracker, which never holds up, stops or changes the run.

The mirror is derived from the log: event n of it is step n of the tracker. How many events the tracker has is noted in
the run folder each time it has taken some, and a run that goes on sends those behind the note only: none is doubled
when a run is resumed, and what was missed, because the network was down or --track was not given, is made up for. (A
process that is killed between sending and noting sends those points once more; TensorBoard and wandb ignore the first
or the second of them, MLflow shows both.) A run that is resumed computes the same events again, which need not be sent
again.
"""

from __future__ import annotations

import json
import queue
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from anyshot.runs.files import replace_file
from anyshot.runs.reading import EXPERIMENT_FILE, read_events
from anyshot.runs.records import Event, ExperimentRecord
from anyshot.runs.trackers import OPEN, Metrics, Note, check_tracker

PATIENCE = 30.0  # seconds that the end of a run waits for the tracker to take the rest
NOT_METRICS = ("step",)  # of a task; the tracker's own step is the number of the event


class Mirror:
    """Sends the events of a run to a tracker, from a thread of its own.

    Use it by `with` around `anyshot.run`, which takes it as `observe`:

        with Mirror("mlflow", folder, experiment.record) as mirror:
            anyshot.run(experiment, folder, observe=mirror)

    Args:
        tracker: tensorboard, mlflow or wandb.
        folder: the run folder.
        experiment: what is run.
        tell: called with one sentence: where the tracker shows the run.
        warn: called with one sentence if the tracker fails; the run goes on without it.

    Raises:
        InputError: the tracker is not installed.
    """

    def __init__(
        self,
        tracker: str,
        folder: str | Path,
        experiment: ExperimentRecord,
        tell: Callable[[str], None] = print,
        warn: Callable[[str], None] = warnings.warn,
    ) -> None:
        check_tracker(tracker)
        self.tracker, self.folder, self.experiment = tracker, Path(folder), experiment
        self._tell, self._warn = tell, warn
        self._events: queue.SimpleQueue[Event | bool] = queue.SimpleQueue()  # a bool ends it: finished or not
        self._said: queue.SimpleQueue[tuple[Callable[[str], None], str]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def __call__(self, what: str, news: Any) -> None:
        """Take what happens in the run."""
        if what == "compiling":
            self._begin()
        elif what == "event" and self._works:
            self._events.put(news)
        self._speak()

    def __enter__(self) -> Mirror:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._thread is None and (self.folder / EXPERIMENT_FILE).exists():
            self._begin()  # the run was finished before; the tracker may lack some of it
        if self._thread is not None:
            self._events.put(kind is None)
            self._thread.join(PATIENCE)
            if self._works:
                self._warn(f"{self.tracker} is slow; what it has not taken yet it gets by: {self._again}")
        self._speak()

    @property
    def _works(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _begin(self) -> None:
        for event in read_events(self.folder):
            self._events.put(event)
        self._thread = threading.Thread(target=self._work, name=f"anyshot-{self.tracker}", daemon=True)
        self._thread.start()

    def _speak(self) -> None:
        """Say what the thread had to say: only this one may print."""
        while not self._said.empty():
            how, sentence = self._said.get()
            how(sentence)

    def _work(self) -> None:
        try:
            self._mirror()
        except Exception as error:  # whatever a tracker does is no reason to stop the run
            why = textwrap.shorten(str(error), 200) or type(error).__name__
            sentence = f"{self.tracker} failed ({why}); the run goes on; it gets what it lacks by: {self._again}"
            self._said.put((self._warn, sentence))

    def _mirror(self) -> None:
        record = self.experiment
        title = f"{record.tasks.name} {record.learner.name} seed {record.seed}"
        params = {"learner": record.learner.name, "seed": record.seed, **record.settings()}
        tracker = OPEN[self.tracker](self.folder, title, params, self._read_note())
        sent = tracker.note.sent
        self._write_note(tracker.note)
        self._said.put((self._tell, f"mirrored to {tracker.where}"))
        number = 0  # of the next event in the queue, which has the whole log
        while True:
            batch = [self._events.get()]
            while not self._events.empty():
                batch.append(self._events.get())
            events = [event for event in batch if not isinstance(event, bool)]
            new = [_metrics(event) for event in events[max(0, sent - number) :]]
            number += len(events)
            if new:
                tracker.send(sent, new)
                sent += len(new)
                self._write_note(Note(sent, tracker.note.run, tracker.note.at))
            if isinstance(batch[-1], bool):
                tracker.close(finished=batch[-1])
                return

    @property
    def _again(self) -> str:
        return f"anyshot run --resume {self.folder} --track {self.tracker}"

    @property
    def _note(self) -> Path:
        return self.folder / f"{self.tracker}.json"

    def _read_note(self) -> Note:
        if not self._note.exists():
            return Note()
        try:
            return Note(**json.loads(self._note.read_bytes()))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{self._note} is damaged; delete it to have the run mirrored anew") from error

    def _write_note(self, note: Note) -> None:
        replace_file(self._note, json.dumps(asdict(note)).encode() + b"\n")


def _metrics(event: Event) -> Metrics:
    """The numbers of an event, by dotted names such as train.loss and rates.beta."""
    return dict(_numbers(event.to_json()))


def _numbers(content: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _numbers(value, f"{prefix}{name}.")
        elif type(value) in (int, float) and name not in NOT_METRICS:
            yield prefix + name, float(value)
