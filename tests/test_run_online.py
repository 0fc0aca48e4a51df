"""Whole online runs: killed, stopped, damaged or refused, they end as if nothing had happened, or with a sentence."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anyshot.errors import DataError, InputError, RunError
from anyshot.learners.numbers import Numbers
from anyshot.online import Ledger
from anyshot.online.protocol import Protocol
from anyshot.runs.experiment import Experiment
from anyshot.runs.online import run_online
from anyshot.runs.presets import PRESETS, preset
from anyshot.runs.reading import read_events
from anyshot.runs.regret import estimate_regret
from anyshot.runs.settings import Data, Network, Settings, settings_from

SETTINGS = Settings(
    data=Data("sinusoid", settings={"tasks": 6, "given": 30, "held": 10}),
    network=Network("mlp", hidden=(8,)),
    numbers=Numbers(inner_steps=1, inner_rate=0.01, meta_rate=1e-2, tasks="together"),
    protocol=Protocol(
        arrive=2,
        every=3,
        max_steps=45,
        measure="loss",
        threshold=0.5,
        max_shots=5,
        tasks_per_update=3,
        validation=5,
        test=10,
    ),
)
EXPERIMENT = Experiment(SETTINGS, "ftml-vs", seed=0)
# The same experiment as a person types it.
WORDS = [
    "run",
    "sinusoid",
    "--data.settings",
    "tasks",
    "6",
    "given",
    "30",
    "held",
    "10",
    "--network.hidden",
    "8",
    "--numbers.meta-rate",
    "0.01",
    "--protocol.every",
    "3",
    "--protocol.max-steps",
    "45",
    "--protocol.threshold",
    "0.5",
    "--protocol.max-shots",
    "5",
    "--protocol.tasks-per-update",
    "3",
    "--protocol.validation",
    "5",
    "--protocol.test",
    "10",
    "--protocol.batch",
    "500",
]


class Crash(BaseException):
    """A process that ends here and now."""


def result(folder: Path) -> dict[str, bytes]:
    """What must be the same however a run came to its end."""
    (last,) = sorted((folder / "checkpoints").iterdir())[-1:]
    files = [folder / "events.jsonl", folder / "summary.json", folder / "experiment.json", *sorted(last.iterdir())]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    run_online(EXPERIMENT, folder)
    return folder


def run_to_the_end(folder: Path, attempts: int = 60, **how: Any) -> None:
    for _ in range(attempts):
        try:
            run_online(EXPERIMENT, folder, **how)
        except Crash:
            continue
        return
    pytest.fail("it never ends")


def crash_at(monkeypatch: pytest.MonkeyPatch, which: random.Random, chance: float) -> None:
    """Every call that changes something on the disk may be the last thing the process does, before or after it."""
    for name in ("fsync", "write", "ftruncate", "replace", "rename", "unlink", "mkdir"):
        real = getattr(os, name)

        def call(*words: Any, _real: Callable[..., Any] = real, **named: Any) -> Any:
            if which.random() < chance:
                raise Crash
            done = _real(*words, **named)
            if which.random() < chance:
                raise Crash
            return done

        monkeypatch.setattr(os, name, call)


@pytest.mark.parametrize(
    "seed", [seed if seed < 8 else pytest.param(seed, marks=pytest.mark.slow) for seed in range(20)]
)
def test_a_run_that_crashes_again_and_again_ends_byte_equal(
    seed: int, uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    which = random.Random(seed)  # noqa: S311
    dispatches = iter(range(10**6))

    def watch(what: str, news: dict[str, Any]) -> None:
        if what == "evaluated" and next(dispatches) % 40 == 39 and which.random() < 0.5:
            raise Crash

    with monkeypatch.context() as patched:
        crash_at(patched, which, chance=0.01)
        run_to_the_end(tmp_path / "run", checkpoint_seconds=which.choice([0.0, 0.0, 0.05, 60.0]), watch=watch)
    assert result(tmp_path / "run") == result(uninterrupted)


def command(*words: str) -> list[str]:
    return [sys.executable, "-c", "from anyshot.cli import main; main()", *words]


def environment() -> dict[str, str]:
    return os.environ | {"JAX_ENABLE_X64": "0", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1"}


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of the command line, never interrupted."""
    folder = tmp_path_factory.mktemp("typed") / "whole"
    subprocess.run(command(*WORDS, "--out", str(folder)), env=environment(), check=True, capture_output=True)
    return folder


def lines(folder: Path) -> int:
    log = folder / "events.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def kill_sometime(process: subprocess.Popen[str], folder: Path, after: float) -> None:
    """SIGKILL some time after the first event it writes; it may also have ended by then."""
    before = lines(folder)
    while process.poll() is None and lines(folder) == before:
        time.sleep(0.005)
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def killed_again_and_again(folder: Path, kills: int, seed: int) -> None:
    which = random.Random(seed)  # noqa: S311
    words = [*WORDS, "--out", str(folder), "--checkpoint-seconds", "0"]
    for _ in range(kills):
        process = subprocess.Popen(command(*words), env=environment(), stdout=subprocess.DEVNULL, text=True)
        kill_sometime(process, folder, which.random() * 0.3)
    subprocess.run(command(*words), env=environment(), check=True, capture_output=True)


def test_killed_for_real_it_ends_byte_equal(typed: Path, tmp_path: Path) -> None:
    killed_again_and_again(tmp_path / "run", kills=3, seed=0)
    assert result(tmp_path / "run") == result(typed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_killed_two_hundred_times_in_all(typed: Path, tmp_path: Path, seed: int) -> None:
    killed_again_and_again(tmp_path / "run", kills=10, seed=seed)
    assert result(tmp_path / "run") == result(typed)


def test_ctrl_c_saves_and_says_how_to_go_on(typed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = subprocess.Popen(
        command(*WORDS, "--out", str(folder)),
        env=environment(),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    while process.poll() is None and lines(folder) == 0:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"anyshot run --resume {folder}" in told
    assert "Traceback" not in told
    assert any((folder / "checkpoints").iterdir())
    subprocess.run(command("run", "--resume", str(folder)), env=environment(), check=True, capture_output=True)
    assert result(folder) == result(typed)


def test_a_finished_run_is_not_run_again(uninterrupted: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in uninterrupted.rglob("*") if path.suffix == ".jsonl"}
    ledger = run_online(EXPERIMENT, uninterrupted)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert (uninterrupted / "summary.json").exists()
    assert ledger == Ledger.of(read_events(uninterrupted), test=10)


def test_the_same_experiment_elsewhere_is_the_same_and_another_seed_is_not(uninterrupted: Path, tmp_path: Path) -> None:
    run_online(EXPERIMENT, tmp_path / "again", checkpoint_seconds=0.0)
    assert result(tmp_path / "again") == result(uninterrupted)
    run_online(replace(EXPERIMENT, seed=1), tmp_path / "other")
    assert result(tmp_path / "other")["events.jsonl"] != result(uninterrupted)["events.jsonl"]


def test_all_methods_get_the_same_stream(uninterrupted: Path, tmp_path: Path) -> None:
    run_online(replace(EXPERIMENT, learner="toe"), tmp_path / "toe")
    tasks = [
        [event["task"] for event in read_events(folder) if event["step"] == 0]
        for folder in (uninterrupted, tmp_path / "toe")
    ]
    assert tasks[0] == tasks[1]
    assert len(tasks[0]) == 6


# Things that go wrong


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    numbers = replace(SETTINGS.numbers, meta_rate=1e200)
    wild = Experiment(SETTINGS.model_copy(update={"numbers": numbers}), "ftml-vs", 0)
    with pytest.raises(RunError) as caught:
        run_online(wild, tmp_path / "run", checkpoint_seconds=0.0)
    assert "not finite" in str(caught.value)
    assert "task 0 (" in str(caught.value)
    assert "meta_rate" in str(caught.value)
    assert all(np.isfinite(event["loss"]) for event in read_events(tmp_path / "run"))
    with pytest.raises(RunError, match="not finite"):  # the checkpoint it goes on from is good, and the end the same
        run_online(wild, tmp_path / "run")


def test_another_experiment_is_refused(uninterrupted: Path) -> None:
    before = result(uninterrupted)
    with pytest.raises(InputError, match="seed"):
        run_online(replace(EXPERIMENT, seed=1), uninterrupted)
    protocol = replace(SETTINGS.protocol, threshold=0.25)
    with pytest.raises(InputError, match="threshold"):
        run_online(replace(EXPERIMENT, settings=SETTINGS.model_copy(update={"protocol": protocol})), uninterrupted)
    assert result(uninterrupted) == before


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_full_or_read_only_disk_keeps_the_last_checkpoint(
    code: int, uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[int] = []

    def watch(what: str, news: dict[str, Any]) -> None:
        if what == "saved":
            saved.append(news["rounds"])
            if len(saved) == 3:
                monkeypatch.setattr(os, "fsync", no_room)

    def no_room(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    with pytest.raises(DataError, match=os.strerror(code)):
        run_online(EXPERIMENT, tmp_path / "run", checkpoint_seconds=0.0, watch=watch)
    monkeypatch.undo()
    kept = sorted(int(path.name) for path in (tmp_path / "run/checkpoints").iterdir())
    assert kept == saved[-2:]
    run_online(EXPERIMENT, tmp_path / "run")
    assert result(tmp_path / "run") == result(uninterrupted)


def test_a_damaged_checkpoint_is_passed_over(uninterrupted: Path, tmp_path: Path) -> None:
    with pytest.raises(Crash):
        run_online(EXPERIMENT, tmp_path / "run", checkpoint_seconds=0.0, watch=crash_after(saves=4))
    newest = max((tmp_path / "run/checkpoints").iterdir())
    content = bytearray((newest / "state.safetensors").read_bytes())
    content[len(content) // 2] ^= 1
    (newest / "state.safetensors").write_bytes(content)
    warnings: list[str] = []
    run_online(EXPERIMENT, tmp_path / "run", warn=warnings.append)
    assert newest.name in warnings[0]
    assert result(tmp_path / "run") == result(uninterrupted)


def crash_after(saves: int) -> Callable[[str, dict[str, Any]], None]:
    left = iter(range(saves - 1, -1, -1))

    def watch(what: str, news: dict[str, Any]) -> None:
        if what == "saved" and next(left) == 0:
            raise Crash

    return watch


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("run", "usage"),
        ("run rainbow-mnits --out a", "for anyshot run; did you mean rainbow-mnist? there are"),
        ("run sinusoid", "--out is missing; give a new or empty folder"),
        ("run --out a", "a preset must come first, got '--out'"),
        ("run sinusoid --out a --seed -1", "seed must be a whole number from 0 to 4294967295, got -1"),
        ("run sinusoid --out a --protocol.every 0", "every must be a whole number of at least 1, got 0"),
        ("run sinusoid --out a --protocol.tasks 101", "tasks is 101, but sinusoid has 100"),
        ("run sinusoid --out a --protocol.test 500", "test is 500, but a task of sinusoid has 100 examples held"),
        ("run sinusoid --out a --protocol.measure accuracy --protocol.threshold 0.5", "measure must be 'loss'"),
        ("run sinusoid --out a --learner protonet", "protonet needs classes"),
        (
            "run sinusoid --out a --network.kind conv4",
            "network.kind is 'conv4', but an example of sinusoid has shape (1,)",
        ),
        ("run sinusoid --out a --numbers.inner-rate -1", "inner_rate must be a positive, finite number, got -1"),
        ("run sinusoid --out a --checkpoint-seconds -1", "checkpoint_seconds must be a finite number of at least 0"),
        ("run sinusoid --out a --data.name nope", "there is no task set 'nope'"),
        ("run --resume nowhere", "nowhere is no run folder"),
        ("rnu", "did you mean run?"),
    ],
)
def test_nonsense_is_refused_before_any_work(
    words: str, told: str, no_data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from anyshot.cli import main

    monkeypatch.chdir(no_data)
    monkeypatch.setattr(sys, "argv", ["anyshot", *words.split()])
    monkeypatch.setattr("anyshot.cli.running.use_device", lambda device, tasks: None)
    with pytest.raises(SystemExit) as end:
        main()
    caught = capsys.readouterr()
    assert end.value.code in (1, 2)
    assert told in caught.err + caught.out
    assert "Traceback" not in caught.err
    assert not (no_data / "a").exists() or not list((no_data / "a").iterdir())


# What comes out


def test_the_ledger_adds_up(uninterrupted: Path) -> None:
    events = read_events(uninterrupted)
    ledger = Ledger.of(events, test=10)
    assert ledger.cumulative_loss == sum(event["loss"] for event in events) == events[-1]["total_loss"]
    assert ledger.labels == events[-1]["total_labels"] == sum(event["labels"] for event in events if event["ended"])
    assert ledger.test_labels == 60
    assert [task.position for task in ledger.tasks] == list(range(6))
    for task in ledger.tasks:
        own = [event for event in events if event["position"] == task.position]
        assert task.evaluations == len(own)
        assert [event["labels"] for event in own] == [min(2 * number, 30) for number in range(len(own))]
        assert [event["shots"] for event in own] == [min(number, 5) for number in range(len(own))]
        assert [event["mastered"] for event in own[:-1]] == [False] * (len(own) - 1)
        assert own[-1]["ended"]
        assert (task.mastered, task.steps) == (own[-1]["mastered"], 3 * (len(own) - 1))
        assert task.mastered or task.steps == 45
        assert len(own[-1]["alpha"]) == 6
        np.testing.assert_allclose(
            own[-1]["alpha"], [own[-1]["beta"] * (1 - 1 / (1 + own[-1]["eta"] * s)) for s in range(6)], rtol=1e-5
        )


@pytest.mark.slow
def test_regret_of_a_learner_that_never_learns_is_zero(tmp_path: Path, uninterrupted: Path) -> None:
    numbers = replace(SETTINGS.numbers, meta_rate=1e-30)
    run_online(Experiment(SETTINGS.model_copy(update={"numbers": numbers}), "ftml-vs", 0), tmp_path / "run")
    estimate = estimate_regret(tmp_path / "run", steps=9)
    assert estimate["hindsight_loss"] == pytest.approx(estimate["cumulative_loss"], rel=1e-6)
    learned = estimate_regret(uninterrupted, steps=300)
    assert learned["hindsight_loss"] < learned["cumulative_loss"]


def test_a_comparator_that_diverges_has_no_regret(uninterrupted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyshot.runs.regret.trained_on", lambda loop, stream, state, key, rounds: state.learner)
    monkeypatch.setattr("anyshot.runs.regret.losses_in_hindsight", lambda *arguments: np.array([1.0, np.nan]))
    with pytest.raises(
        RunError, match=r"^the comparator of \S+ has a loss that is not finite; try fewer steps than 7$"
    ):
        estimate_regret(uninterrupted, steps=7)


def test_presets_have_the_papers_numbers() -> None:
    rainbow, mini, pose = (preset(name) for name in ("rainbow-mnist", "contextual-miniimagenet", "pose"))
    for settings in (rainbow, mini):
        assert (settings.numbers.inner_steps, settings.numbers.inner_clip) == (5, 10)
        assert (settings.numbers.meta_rate, settings.numbers.meta_clip, settings.numbers.eta) == (1e-4, 10, 1)
        assert (settings.protocol.max_shots, settings.protocol.measure, settings.protocol.advance) == (
            20,
            "accuracy",
            True,
        )
    assert (rainbow.protocol.tasks_per_update, rainbow.numbers.inner_rate) == (25, 0.1)
    assert (rainbow.protocol.threshold, rainbow.protocol.max_steps) == (0.85, 2000)
    assert (rainbow.protocol.arrive, rainbow.protocol.every, rainbow.protocol.points_per_shot) == (4, 10, 2)
    fixed = preset("rainbow-mnist-fixed").protocol
    assert (fixed.advance, fixed.max_steps, fixed.arrive, fixed.every) == (False, 800, 2, 2)
    assert [preset(f"rainbow-mnist-m{shots}").protocol.max_shots for shots in (10, 30)] == [10, 30]
    assert (mini.protocol.tasks_per_update, mini.numbers.inner_rate, mini.protocol.pretrain_tasks) == (16, 0.03, 40)
    assert (mini.protocol.threshold, mini.protocol.max_steps) == (0.75, 1400)
    assert (mini.protocol.arrive, mini.protocol.every, mini.protocol.points_per_shot) == (8, 20, 4)
    fixed = preset("contextual-miniimagenet-fixed").protocol
    assert (fixed.advance, fixed.max_steps, fixed.arrive, fixed.every) == (False, 700, 8, 10)
    assert (pose.protocol.max_shots, pose.protocol.arrive, pose.protocol.every) == (15, 4, 10)
    assert (pose.protocol.max_steps, pose.protocol.advance, pose.protocol.measure) == (240, False, "loss")


@pytest.mark.parametrize("name", list(PRESETS))
def test_settings_survive_json(name: str) -> None:
    settings = preset(name)
    assert settings_from(json.loads(json.dumps(settings.model_dump(mode="json")))) == settings


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"protocol": {"evry": 3}}, "protocol.evry"),
        ({"numbers": {"inner_rate": "fast"}}, "numbers.inner_rate"),
        ({"protocol": {"threshold": 1.5}}, "threshold must be an accuracy above 0 and at most 1, got 1.5"),
        ({"protocol": {"pretrain_tasks": 3}}, "pretraining needs tasks and steps"),
        ({"nets": {}}, "nets"),
    ],
)
def test_wrong_settings_are_named(change: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as caught:
        settings_from(change)
    assert told in str(caught.value)


@pytest.fixture(autouse=True)
def _no_leftovers(tmp_path: Path) -> Iterator[None]:
    yield
    assert not list(tmp_path.rglob(".unfinished-*")), "nothing half-written is left"
    shutil.rmtree(tmp_path, ignore_errors=True)
