"""Mirroring the event log to trackers: nothing missing, nothing doubled, and no failure reaches the run."""

from __future__ import annotations

import importlib.machinery
import json
import struct
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.proto.event_pb2 import Event
from test_report import DIGITS, write_run

from anyshot.cli import run as run_command
from anyshot.errors import InputError
from anyshot.runs import tracking
from anyshot.runs.tracking import Mirror, params_of

PARAMS = params_of("ftml-vs", 0, DIGITS.model_dump(mode="json"))
Points = list[tuple[int, dict[str, float]]]


class Told(list[str]):
    """What was told, and what was warned of."""

    def __init__(self) -> None:
        self.warned: list[str] = []


def mirror(tracker: str, folder: Path, told: Told) -> Mirror:
    return Mirror(tracker, folder, PARAMS, told.append, told.warned.append)


def run(folder: Path, events: list[dict[str, Any]], tracker: str, stop_at: int | None = None, kept: int = 0) -> Told:
    """As `run_online` does it: the log goes back to the `kept` events of a checkpoint and grows from there."""
    told = Told()
    log = folder / "events.jsonl"
    log.write_text("".join(json.dumps(event) + "\n" for event in events[:kept]))
    (folder / "summary.json").unlink(missing_ok=True)
    try:
        with mirror(tracker, folder, told) as watch:
            watch("loading", {})
            watch("compiling", {})
            for number, event in enumerate(events[kept:], start=kept):
                if number == stop_at:
                    raise KeyboardInterrupt
                with log.open("a") as file:
                    file.write(json.dumps(event) + "\n")
                watch("evaluated", event)
    except KeyboardInterrupt:
        assert stop_at is not None
    return told


def expected(events: list[dict[str, Any]]) -> Points:
    names = {"position", "labels", "shots", "loss", "accuracy", "total_loss", "beta", "eta"}
    return [(n, {k: float(v) for k, v in event.items() if k in names}) for n, event in enumerate(events)]


def records(path: Path) -> Iterator[Event]:
    """The events in a file of TensorBoard, read by its format: length, checksum, data, checksum."""
    data = path.read_bytes()
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        yield Event.FromString(data[12 : 12 + length])
        data = data[16 + length :]


def on_the_board(folder: Path) -> Points:
    """What TensorBoard shows: a start of a session at a step makes what came before, from that step on, void."""
    points: Points = []
    for path in sorted((folder / "tensorboard").iterdir()):
        assert "tfevents" in path.name
        first, *others = records(path)
        assert first.file_version == "brain.Event:2"
        for event in others:
            if event.HasField("session_log"):
                points = [point for point in points if point[0] < event.step]
            elif event.summary.value[0].HasField("simple_value"):
                points.append((event.step, {value.tag: value.simple_value for value in event.summary.value}))
            else:
                (settings,) = event.summary.value
                assert b"protocol.threshold | 0.85" in settings.tensor.string_val[0]
    return points


def test_tensorboard_gets_every_event_once_however_often_the_run_is_stopped(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    events = write_run(folder, "ftml-vs", 0)
    assert len(events) > 20
    run(folder, events, "tensorboard", stop_at=9)
    assert [step for step, _ in on_the_board(folder)] == list(range(9))
    run(folder, events, "tensorboard", stop_at=12, kept=6)  # the checkpoint was older than what was mirrored
    run(folder, events, "tensorboard", stop_at=7, kept=6)
    # One that was killed after sending and before noting it:
    note = folder / "tensorboard.json"
    note.write_text(json.dumps(json.loads(note.read_bytes()) | {"sent": 10}))
    told = run(folder, events, "tensorboard", kept=12)
    assert told == [f"mirrored to {folder}/tensorboard; look at it with: tensorboard --logdir {folder}/tensorboard"]
    assert not told.warned
    shown = on_the_board(folder)
    assert [step for step, _ in shown] == list(range(len(events)))
    for (_, have), (_, want) in zip(shown, expected(events), strict=True):
        assert have == pytest.approx(want, rel=1e-6)  # float32


def test_a_finished_run_is_mirrored_afterwards_and_again_if_the_mirror_was_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    events = write_run(folder, "ftml-vs", 0)
    for _ in range(2):
        for _ in range(2):
            with mirror("tensorboard", folder, Told()):
                pass
            assert len(on_the_board(folder)) == len(events)
        for path in (folder / "tensorboard").iterdir():
            path.unlink()
        (folder / "tensorboard").rmdir()


def fake(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    """A package of this name, installed."""
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, origin="here")
    module.__dict__.update(content)
    monkeypatch.setitem(sys.modules, name, module)


class MLflowServer:
    """As much of MLflow as is used; it answers `failing` requests with an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs: dict[str, dict[str, Any]] = {}
        self.fails = False
        record = types.SimpleNamespace
        fake(monkeypatch, "mlflow", MlflowClient=lambda: self, get_tracking_uri=lambda: "http://tracker")
        fake(
            monkeypatch,
            "mlflow.entities",
            Param=lambda key, value: (key, value),
            Metric=lambda key, value, timestamp, step: (step, key, value),
        )
        self.record = record

    def get_experiment_by_name(self, name: str) -> Any:
        return None

    def create_experiment(self, name: str) -> str:
        assert name == "anyshot"
        return "7"

    def create_run(self, experiment: str, run_name: str) -> Any:
        identity = f"run{len(self.runs)}"
        self.runs[identity] = {"name": run_name, "params": {}, "points": [], "status": "RUNNING"}
        return self.record(info=self.record(run_id=identity))

    def update_run(self, run: str, status: str) -> None:
        self.runs[run]["status"] = status

    def log_batch(self, run: str, metrics: Any = (), params: Any = ()) -> None:
        assert len(metrics) <= 1000
        if self.fails:
            raise ConnectionError("the network\nis down")
        self.runs[run]["points"] += metrics
        self.runs[run]["params"].update(params)

    def set_terminated(self, run: str, status: str) -> None:
        self.runs[run]["status"] = status


def test_mlflow_goes_on_in_the_same_run_and_makes_up_for_a_dead_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    server, folder = MLflowServer(monkeypatch), tmp_path / "run"
    events = write_run(folder, "ftml-vs", 0)
    assert not run(folder, events, "mlflow", stop_at=5).warned
    assert server.runs["run0"]["status"] == "KILLED"
    server.fails = True
    told = run(folder, events, "mlflow", stop_at=12, kept=4)
    assert told.warned == [
        f"mlflow failed (the network is down); the run goes on; it gets what it lacks by: "
        f"anyshot run --resume {folder} --track mlflow"
    ]
    server.fails = False
    assert not run(folder, events, "mlflow", kept=12).warned
    (only,) = server.runs.values()
    assert only["status"] == "FINISHED"
    assert only["name"] == "rainbow-digits ftml-vs seed 0"
    assert only["params"]["protocol.threshold"] == "0.85"
    assert sorted(only["points"]) == sorted((n, k, v) for n, one in expected(events) for k, v in one.items())


def test_wandb_gets_the_same_run_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[dict[str, Any]] = []
    logged: Points = []
    ended: list[int] = []

    def init(**how: Any) -> Any:
        opened.append(how)
        return types.SimpleNamespace(
            offline=True,
            dir=f"{how['dir']}/wandb/offline-1/files",
            log=lambda values, step: logged.append((step, values)),
            finish=lambda exit_code: ended.append(exit_code),
        )

    fake(monkeypatch, "wandb", init=init, Settings=dict, login=lambda prompt, verify: False)
    folder = tmp_path / "run"
    events = write_run(folder, "ftml-vs", 0)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    with pytest.raises(InputError, match="run `wandb login`, or set WANDB_MODE=offline"):
        mirror("wandb", folder, Told())
    monkeypatch.setenv("WANDB_MODE", "offline")
    run(folder, events, "wandb", stop_at=9)
    told = run(folder, events, "wandb", kept=3)
    assert told == [f"mirrored to {folder}/wandb/offline-1"]
    assert opened[0]["id"] == opened[1]["id"]
    assert all(how["resume"] == "allow" and how["config"] == PARAMS for how in opened)
    assert ended == [1, 0]
    assert logged == expected(events)


def test_a_tracker_that_hangs_does_not_hold_up_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_go = threading.Event()
    server, folder = MLflowServer(monkeypatch), tmp_path / "run"
    monkeypatch.setattr(server, "log_batch", lambda *words, **named: let_go.wait(20))
    monkeypatch.setattr(tracking, "PATIENCE", 0.05)
    events = write_run(folder, "ftml-vs", 0)
    told = run(folder, events, "mlflow")
    let_go.set()
    (sentence,) = told.warned
    assert sentence.startswith("mlflow is slow; what it has not taken yet it gets by: anyshot run --resume")


def test_a_note_that_is_damaged_is_a_warning(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    events = write_run(folder, "ftml-vs", 0)
    (folder / "tensorboard.json").write_text('{"se')
    (sentence,) = run(folder, events, "tensorboard").warned
    assert "tensorboard.json is damaged; delete it to have the run mirrored anew" in sentence


@pytest.mark.parametrize("tracker", ["mlflow", "wandb", "tensorboard"])
def test_a_tracker_that_is_missing_is_refused_before_any_work(
    tracker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("anyshot.runs.trackers.find_spec", lambda name: None)
    with pytest.raises(InputError, match=rf"^--track {tracker} needs .*: pip install 'anyshot\[{tracker}\]'$"):
        run_command.main(["sinusoid", "--track", tracker, "--out", str(tmp_path / "run")])
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "run").exists()
