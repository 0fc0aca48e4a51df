"""Mirroring the event log to trackers: nothing missing, nothing doubled, and no failure reaches the run."""

from __future__ import annotations

import importlib.machinery
import json
import shutil
import struct
import sys
import threading
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.proto.event_pb2 import Event as BoardEvent

from anyshot.errors import InputError
from anyshot.runs import tracking
from anyshot.runs.reading import read_run
from anyshot.runs.records import Evaluation, Event, ExperimentRecord
from anyshot.runs.running import run
from anyshot.runs.tracking import Mirror
from tests.support.small_runs import small_online

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]
Points = list[tuple[int, dict[str, float]]]


class Told(list[str]):
    """What was told, and what was warned of."""

    def __init__(self) -> None:
        self.warned: list[str] = []


class Copy:
    """A copy of a finished run that is run once more, as `anyshot.run` does it, in parts."""

    def __init__(self, folder: Path, source: Path) -> None:
        shutil.copytree(source, folder)
        self.folder = folder
        self.record: ExperimentRecord
        self.record, self.events, _ = read_run(folder)
        assert len(self.events) > 20

    def mirror(self, tracker: str, told: Told) -> Mirror:
        return Mirror(tracker, self.folder, self.record, told.append, told.warned.append)

    def run(self, tracker: str, stop_at: int | None = None, kept: int = 0) -> Told:
        """The log goes back to the `kept` events of a checkpoint and grows from there."""
        told, log = Told(), self.folder / "events.jsonl"
        log.write_text("".join(json.dumps(event.to_json()) + "\n" for event in self.events[:kept]))
        (self.folder / "summary.json").unlink(missing_ok=True)
        try:
            with self.mirror(tracker, told) as observe:
                observe("compiling", None)
                for number, event in enumerate(self.events[kept:], start=kept):
                    if number == stop_at:
                        raise KeyboardInterrupt
                    with log.open("a") as file:
                        file.write(json.dumps(event.to_json()) + "\n")
                    observe("event", event)
                observe("saved", 3)
        except KeyboardInterrupt:
            assert stop_at is not None
        return told


@pytest.fixture
def copy(online_folder: Path, tmp_path: Path) -> Copy:
    return Copy(tmp_path / "run", online_folder)


def expected(events: Sequence[Event]) -> Points:
    """The numbers of each event, spelled out."""
    points: Points = []
    for number, event in enumerate(events):
        assert isinstance(event, Evaluation)
        values = {name: float(getattr(event, name)) for name in ("position", "labels", "shots", "loss")}
        values |= {"total_loss": event.total_loss, "total_labels": float(event.total_labels)}
        if event.constant_loss is not None:
            values["constant_loss"] = event.constant_loss
        values |= {f"train.{name}": value for name, value in event.train.items()}
        values |= {f"rates.{name}": value for name, value in event.rates.items() if isinstance(value, float)}
        points.append((number, values))
    assert {"train.loss", "rates.beta", "rates.eta"} <= points[1][1].keys()
    return points


def records(path: Path) -> Iterator[BoardEvent]:
    """The events in a file of TensorBoard, read by its format: length, checksum, data, checksum."""
    data = path.read_bytes()
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        yield BoardEvent.FromString(data[12 : 12 + length])
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
                assert b"protocol.threshold | 0.5" in settings.tensor.string_val[0]
    return points


def test_tensorboard_gets_every_event_once_however_often_the_run_is_stopped(copy: Copy) -> None:
    folder = copy.folder
    copy.run("tensorboard", stop_at=9)
    assert [step for step, _ in on_the_board(folder)] == list(range(9))
    copy.run("tensorboard", stop_at=12, kept=6)  # the checkpoint was older than what was mirrored
    copy.run("tensorboard", stop_at=7, kept=6)
    # One that was killed after sending and before noting it:
    note = folder / "tensorboard.json"
    note.write_text(json.dumps(json.loads(note.read_bytes()) | {"sent": 10}))
    told = copy.run("tensorboard", kept=12)
    assert [str(folder / "tensorboard") in sentence for sentence in told] == [True]
    assert not told.warned
    shown = on_the_board(folder)
    assert [step for step, _ in shown] == list(range(len(copy.events)))
    for (_, have), (_, want) in zip(shown, expected(copy.events), strict=True):
        assert have == pytest.approx(want, rel=1e-6)  # float32


def test_a_real_run_is_mirrored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experiment, folder = small_online("toe", num_tasks=1), tmp_path / "run"
    with Mirror("tensorboard", folder, experiment.record) as mirror:
        done = run(experiment, folder, progress=False, observe=mirror)
    assert [step for step, _ in on_the_board(folder)] == list(range(len(done.table)))
    assert str(folder / "tensorboard") in capsys.readouterr().out


def test_a_finished_run_is_mirrored_afterwards_and_again_if_the_mirror_was_deleted(copy: Copy) -> None:
    for _ in range(2):
        for _ in range(2):
            with copy.mirror("tensorboard", Told()):
                pass
            assert len(on_the_board(copy.folder)) == len(copy.events)
        shutil.rmtree(copy.folder / "tensorboard")


def fake(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    """A package of this name, installed."""
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, origin="here")
    module.__dict__.update(content)
    monkeypatch.setitem(sys.modules, name, module)


class MLflowServer:
    """As much of MLflow as is used; while `fails`, it answers with an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs: dict[str, dict[str, Any]] = {}
        self.fails = False
        fake(monkeypatch, "mlflow", MlflowClient=lambda: self, get_tracking_uri=lambda: "http://tracker")
        fake(
            monkeypatch,
            "mlflow.entities",
            Param=lambda key, value: (key, value),
            Metric=lambda key, value, timestamp, step: (step, key, value),
        )

    def get_experiment_by_name(self, name: str) -> Any:
        return None

    def create_experiment(self, name: str) -> str:
        assert name == "anyshot"
        return "7"

    def create_run(self, experiment: str, run_name: str) -> Any:
        identity = f"run{len(self.runs)}"
        self.runs[identity] = {"name": run_name, "params": {}, "points": [], "status": "RUNNING"}
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id=identity))

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
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    server = MLflowServer(monkeypatch)
    assert not copy.run("mlflow", stop_at=5).warned
    assert server.runs["run0"]["status"] == "KILLED"
    server.fails = True
    (sentence,) = copy.run("mlflow", stop_at=12, kept=4).warned
    assert "the network is down" in sentence
    assert f"anyshot run --resume {copy.folder} --track mlflow" in sentence
    server.fails = False
    assert not copy.run("mlflow", kept=12).warned
    (only,) = server.runs.values()
    assert only["status"] == "FINISHED"
    assert only["name"] == "sinusoid ftml-vs seed 0"
    assert (only["params"]["protocol.threshold"], only["params"]["learner"]) == ("0.5", "ftml-vs")
    assert sorted(only["points"]) == sorted((n, k, v) for n, one in expected(copy.events) for k, v in one.items())


def test_wandb_gets_the_same_run_by_its_name(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
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
    monkeypatch.delenv("WANDB_MODE", raising=False)
    with pytest.raises(InputError, match="wandb login"):
        copy.mirror("wandb", Told())
    monkeypatch.setenv("WANDB_MODE", "offline")
    copy.run("wandb", stop_at=9)
    told = copy.run("wandb", kept=3)
    assert [sentence.endswith(f"{copy.folder}/wandb/offline-1") for sentence in told] == [True]
    assert opened[0]["id"] == opened[1]["id"]
    for how in opened:
        assert how["resume"] == "allow"
        assert how["config"] == {"learner": "ftml-vs", "seed": 0, **copy.record.settings()}
    assert ended == [1, 0]
    assert logged == expected(copy.events)


def test_a_tracker_that_hangs_does_not_hold_up_the_run(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    let_go = threading.Event()
    server = MLflowServer(monkeypatch)
    monkeypatch.setattr(server, "log_batch", lambda *words, **named: let_go.wait(20))
    monkeypatch.setattr(tracking, "PATIENCE", 0.05)
    told = copy.run("mlflow")
    let_go.set()
    (sentence,) = told.warned
    assert "mlflow is slow" in sentence
    assert f"anyshot run --resume {copy.folder}" in sentence


def test_a_note_that_is_damaged_is_a_warning(copy: Copy) -> None:
    for wrong in ('{"se', "5", '{"sent": 1, "lunch": 2}'):
        (copy.folder / "tensorboard.json").write_text(wrong)
        (sentence,) = copy.run("tensorboard").warned
        assert str(copy.folder / "tensorboard.json") in sentence


@pytest.mark.parametrize("tracker", ["mlflow", "wandb", "tensorboard"])
def test_a_tracker_that_is_missing_is_refused(tracker: str, copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyshot.runs.trackers.find_spec", lambda name: None)
    with pytest.raises(InputError, match=rf"{tracker} needs .*pip install 'anyshot\[{tracker}\]'"):
        copy.mirror(tracker, Told())


def test_an_unknown_tracker_is_refused(copy: Copy) -> None:
    with pytest.raises(InputError, match=r"'aim'.*tensorboard, mlflow, wandb"):
        copy.mirror("aim", Told())
