"""The trackers that an event log can be mirrored to: TensorBoard, MLflow, Weights & Biases; none is imported before."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from anyshot.errors import InputError

Metrics = dict[str, float]
PACKAGES = {"tensorboard": "tensorboardX", "mlflow": "mlflow", "wandb": "wandb"}


@dataclass(frozen=True)
class Note:
    """What a run folder remembers of its mirror.

    Attributes:
        sent: how many of the run's events the tracker has.
        run: the tracker's name for the run.
        at: where the tracker has it.
    """

    sent: int = 0
    run: str = ""
    at: str = ""


class Tracker(Protocol):
    """A run in a tracker; `note` says what it is there, and how much of it was there when it was opened."""

    note: Note
    where: str

    def send(self, first: int, metrics: Sequence[Metrics]) -> None:
        """Log the numbers of the events from number `first` on; all are there when this returns."""

    def close(self, finished: bool) -> None:
        """End; the run is finished, or was stopped and may be resumed."""


def check_tracker(name: str) -> None:
    """Refuse a tracker that is not installed or would ask a question, before any work."""
    if name not in PACKAGES:
        raise InputError(f"there is no tracker {name!r}; there are {', '.join(PACKAGES)}")
    package = PACKAGES[name]
    found = find_spec(package)
    if found is None or found.origin is None:  # a folder of that name in this folder is no package
        raise InputError(
            f"--track {name} needs the package {package}, which is not here; get it with: pip install 'anyshot[{name}]'"
        )
    if name == "wandb" and os.environ.get("WANDB_MODE", "online") == "online":
        import wandb

        if not wandb.login(prompt=False, verify=False):
            raise InputError("--track wandb needs a login; run `wandb login`, or set WANDB_MODE=offline")


class TensorBoard:
    """A file in RUN/tensorboard for each time the run is opened.

    Points that a process wrote just before it was killed, behind the note, are declared void. Records are written one
    by one instead of by SummaryWriter, which keeps some in a queue when it says that all are on the disk.
    """

    def __init__(self, folder: Path, title: str, params: Mapping[str, Any], note: Note) -> None:
        from tensorboardX import RecordWriter
        from tensorboardX.proto.event_pb2 import SessionLog
        from tensorboardX.summary import text

        place = folder / "tensorboard"
        self.note = note if place.is_dir() else Note()
        self.where = f"{place}; look at it with: tensorboard --logdir {place}"
        place.mkdir(exist_ok=True)
        self._file = RecordWriter(str(place / f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}"))
        self._write(file_version="brain.Event:2")
        self._write(step=self.note.sent, session_log=SessionLog(status=SessionLog.START))
        if self.note.sent == 0:
            rows = "\n".join(f"| {name} | {value} |" for name, value in params.items())
            self._write(step=0, summary=text("settings", f"| setting | value |\n| --- | --- |\n{rows}"))

    def send(self, first: int, metrics: Sequence[Metrics]) -> None:
        """Write the points and wait for the file to have them."""
        from tensorboardX.proto.summary_pb2 import Summary

        for number, values in enumerate(metrics, start=first):
            points = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
            self._write(step=number, summary=Summary(value=points))
        self._file.flush()

    def close(self, finished: bool) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, **content: Any) -> None:
        from tensorboardX.proto.event_pb2 import Event

        self._file.write(Event(wall_time=time.time(), **content).SerializeToString())


class MLflow:
    """A run at MLFLOW_TRACKING_URI, in the experiment MLFLOW_EXPERIMENT_NAME (anyshot if it is not set)."""

    MOST = 1000  # metrics in a request

    def __init__(self, folder: Path, title: str, params: Mapping[str, Any], note: Note) -> None:
        import mlflow
        from mlflow.entities import Param

        self._client, at = mlflow.MlflowClient(), mlflow.get_tracking_uri()
        if note.run and note.at == at:
            self._client.update_run(note.run, status="RUNNING")
            self.note = note
        else:
            name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "anyshot")
            experiment = self._client.get_experiment_by_name(name)
            number = experiment.experiment_id if experiment else self._client.create_experiment(name)
            run = self._client.create_run(number, run_name=title).info.run_id
            self._client.log_batch(run, params=[Param(name, str(value)) for name, value in params.items()])
            self.note = Note(0, run, at)
        self.where = f"run {self.note.run} of MLflow at {at}"

    def send(self, first: int, metrics: Sequence[Metrics]) -> None:
        """Log the points."""
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        numbered = enumerate(metrics, start=first)
        points = [Metric(name, value, now, number) for number, values in numbered for name, value in values.items()]
        for start in range(0, len(points), self.MOST):
            self._client.log_batch(self.note.run, metrics=points[start : start + self.MOST])

    def close(self, finished: bool) -> None:
        """Say how it ended."""
        self._client.set_terminated(self.note.run, "FINISHED" if finished else "KILLED")


class WandB:
    """A run of the project WANDB_PROJECT (anyshot if it is not set); WANDB_MODE says whether it leaves the machine."""

    def __init__(self, folder: Path, title: str, params: Mapping[str, Any], note: Note) -> None:
        import wandb

        self.note = note if note.run else Note(0, secrets.token_hex(4))
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "anyshot"),
            id=self.note.run,
            name=title,
            config=dict(params),
            dir=os.environ.get("WANDB_DIR", str(folder)),
            resume="allow",
            settings=wandb.Settings(console="off", silent=True),
        )
        self.where = str(Path(self._run.dir).parent if self._run.offline else self._run.url)

    def send(self, first: int, metrics: Sequence[Metrics]) -> None:
        """Log the points; wandb sends them in a process of its own."""
        for number, values in enumerate(metrics, start=first):
            self._run.log(values, step=number)

    def close(self, finished: bool) -> None:
        """Say how it ended, and wait for what is still on its way."""
        self._run.finish(exit_code=0 if finished else 1)


OPEN: dict[str, Callable[[Path, str, Mapping[str, Any], Note], Tracker]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb": WandB,
}
