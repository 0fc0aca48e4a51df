"""Whole runs: killed, stopped, damaged or refused, they end as if nothing had happened, or with a sentence."""

from __future__ import annotations

import dataclasses
import errno
import functools
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anyshot import Experiment, make_learner, run
from anyshot.errors import DataError, InputError, RunError
from anyshot.runs import drive
from anyshot.runs.reading import read_events
from tests.support.faults import Crash
from tests.support.small_runs import SMALL, result, small_online, start_process, start_small, with_seed

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]


@pytest.fixture(scope="module")
def whole(online_folder: Path, offline_folder: Path) -> dict[str, dict[str, bytes]]:
    """What runs that were never interrupted leave."""
    return {"online": result(online_folder), "offline": result(offline_folder)}


@pytest.fixture(autouse=True)
def no_leftovers(tmp_path: Path) -> Iterator[None]:
    yield
    assert not list(tmp_path.rglob(".unfinished-*")), "nothing half-written is left"
    shutil.rmtree(tmp_path, ignore_errors=True)


# Crashes and kills ---------------------------------------------------------------------------------------------------


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


CRASHES = [("online", seed) for seed in range(20)] + [("offline", seed) for seed in range(6)]
FAST = {("online", 0), ("online", 1), ("offline", 0)}


@pytest.mark.parametrize(
    ("kind", "seed"), [pytest.param(*case, marks=[] if case in FAST else pytest.mark.slow) for case in CRASHES]
)
def test_a_run_that_crashes_again_and_again_ends_byte_equal(
    kind: str, seed: int, whole: dict[str, dict[str, bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    which, crashes = random.Random(seed), []  # noqa: S311
    often, events = {"online": (0.01, 40), "offline": (0.03, 2)}[kind], iter(range(10**6))

    def observe(what: str, news: Any) -> None:
        if what == "event" and next(events) % often[1] == often[1] - 1 and (which.random() < 0.5 or not crashes):
            raise Crash

    with monkeypatch.context() as patched:
        crash_at(patched, which, chance=often[0])
        seconds = which.choice([0.0, 0.0, 0.05, 60.0])
        for _ in range(80):
            try:
                run(SMALL[kind](), tmp_path / "run", progress=False, checkpoint_seconds=seconds, observe=observe)
                break
            except Crash as crash:
                crashes.append(crash)
    assert crashes
    assert result(tmp_path / "run") == whole[kind]


def lines(folder: Path) -> int:
    log = folder / "events.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def wait_for_event(process: subprocess.Popen[str], folder: Path) -> None:
    before = lines(folder)
    while process.poll() is None and lines(folder) == before:
        time.sleep(0.002)


def finish(process: subprocess.Popen[str]) -> None:
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said


def kill_again_and_again(kind: str, folder: Path, kills: int, seed: int) -> None:
    """SIGKILL some time after the first event that each process writes; it may also have ended by then."""
    which, hit = random.Random(seed), 0  # noqa: S311
    for _ in range(kills):
        process = start_small(kind, folder, 0.0)
        wait_for_event(process, folder)
        time.sleep(which.random() * 0.5 if hit else 0.0)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        hit += process.returncode == -signal.SIGKILL
    assert hit > 0
    finish(start_small(kind, folder, 0.0, stderr=subprocess.PIPE))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, bytes]]:
    """What a process that is left alone leaves. (This process may hold functions that were compiled otherwise.)"""

    @functools.cache
    def leave_alone(kind: str) -> dict[str, bytes]:
        folder = tmp_path_factory.mktemp("undisturbed") / kind
        finish(start_small(kind, folder, stderr=subprocess.PIPE))
        return result(folder)

    return leave_alone


@pytest.mark.parametrize("kind", ["online", pytest.param("offline", marks=pytest.mark.slow)])
def test_killed_for_real_it_ends_byte_equal(
    kind: str, undisturbed: Callable[[str], dict[str, bytes]], tmp_path: Path
) -> None:
    kill_again_and_again(kind, tmp_path / "run", kills=1, seed=0)
    assert result(tmp_path / "run") == undisturbed(kind)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), [*(("online", n) for n in range(4)), ("offline", 4), ("offline", 5)])
def test_killed_many_times_it_ends_byte_equal(
    kind: str, seed: int, undisturbed: Callable[[str], dict[str, bytes]], tmp_path: Path
) -> None:
    kill_again_and_again(kind, tmp_path / "run", 10 if kind == "online" else 4, seed)
    assert result(tmp_path / "run") == undisturbed(kind)


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_ctrl_c_in_python_saves_first(
    number: signal.Signals, undisturbed: Callable[[str], dict[str, bytes]], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    process = start_small("online", folder, stderr=subprocess.PIPE)
    wait_for_event(process, folder)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode not in (0, -signal.SIGKILL)
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert not (folder / "summary.json").exists()
    (saved,) = (folder / "checkpoints").iterdir()
    assert (saved / "events.jsonl").read_bytes() == (folder / "events.jsonl").read_bytes()
    finish(start_small("online", folder, stderr=subprocess.PIPE))
    assert result(folder) == undisturbed("online")


# The same and others -------------------------------------------------------------------------------------------------


def test_a_finished_run_is_not_run_again(online_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(online_folder, folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.name != "environment.json"}
    assert run(small_online(), folder, progress=False).summary is not None
    after = {path: path.stat().st_mtime_ns for path in before if path.is_file() and path.name != "lock"}
    assert after == {path: before[path] for path in after}
    assert len(after) > 6


def test_the_same_experiment_elsewhere_is_the_same_and_another_seed_is_not(family: Path, tmp_path: Path) -> None:
    run(small_online(), tmp_path / "again", progress=False, checkpoint_seconds=0.0)
    assert result(tmp_path / "again") == result(family / "ftml-vs-0")
    assert result(family / "ftml-vs-1")["events.jsonl"] != result(family / "ftml-vs-0")["events.jsonl"]


def test_all_methods_get_the_same_stream(family: Path) -> None:
    tasks = {
        name: [event.task for event in read_events(family / name) if event.step == 0]  # type: ignore[union-attr]
        for name in ("ftml-vs-0", "toe-0", "ftml-vs-1", "toe-1")
    }
    assert tasks["ftml-vs-0"] == tasks["toe-0"]
    assert tasks["ftml-vs-1"] == tasks["toe-1"] != tasks["toe-0"]
    assert len(set(tasks["toe-0"])) == 6


def test_another_experiment_is_refused(online_folder: Path) -> None:
    before = result(online_folder)
    with pytest.raises(InputError, match="seed is 0 there and 1 here"):
        run(with_seed(small_online(), 1), online_folder, progress=False)
    with pytest.raises(InputError, match=r"protocol\.threshold is 0\.5 there and 0\.25 here"):
        run(small_online(threshold=0.25), online_folder, progress=False)
    assert result(online_folder) == before


def test_the_checkpoints_of_another_seed_are_refused(family: Path, tmp_path: Path) -> None:
    shutil.copytree(family / "ftml-vs-0", tmp_path / "run")
    (tmp_path / "run/summary.json").unlink()
    shutil.rmtree(tmp_path / "run/checkpoints")
    shutil.copytree(family / "ftml-vs-1/checkpoints", tmp_path / "run/checkpoints")
    log = (tmp_path / "run/events.jsonl").read_bytes()
    with pytest.raises(DataError, match="another experiment"):
        run(small_online(), tmp_path / "run", progress=False, warn=lambda sentence: None)
    assert (tmp_path / "run/events.jsonl").read_bytes() == log


# Own code that changes -----------------------------------------------------------------------------------------------


def scaled(scale: Any) -> Callable[..., Any]:
    return lambda output, label: jnp.mean(scale * (output - label) ** 2)


def small_net(shift: Any) -> Callable[..., Any]:
    def make(key: Any, outputs: int) -> Any:
        weights = jax.random.normal(key, (outputs, 1)) + shift
        return jax.tree_util.Partial(lambda w, x: w @ x, weights)

    return make


def own(**parts: Any) -> Experiment:
    experiment = small_online("toe", num_tasks=1)
    made = {"network": small_net(np.ones((1, 1))), "loss": scaled(1.0), **parts}
    return dataclasses.replace(experiment, learner=make_learner("toe", experiment.tasks, experiment.protocol, **made))


@pytest.fixture(scope="module")
def own_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own") / "run"
    run(own(), folder, progress=False)
    return folder


@pytest.mark.parametrize("finished", [True, False])
def test_own_code_that_changed_is_refused_by_name(finished: bool, own_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(own_folder, folder)
    if not finished:
        (folder / "summary.json").unlink()
    before = result(own_folder)
    changes = {
        "network": [small_net(np.full((1, 1), 2.0)), lambda key, outputs: small_net(np.ones((1, 1)))(key, outputs)],
        "loss": [scaled(2.0), scaled(np.ones(1)), lambda output, label: jnp.mean(jnp.abs(output - label)), None],
    }
    for part, values in changes.items():
        for value in values:
            with pytest.raises(InputError, match=rf"learner\.{part}"):
                run(own(**{part: value}), folder, progress=False)
    assert run(own(), folder, progress=False).summary is not None
    assert result(folder) == before


OWN = """
import dataclasses, os, sys
import equinox as eqx, jax.numpy as jnp
from anyshot import make_learner, run
from tests.support.small_runs import small_online

def helper(x):
    return jnp.tanh(x)

class Net(eqx.Module):
    linear: eqx.nn.Linear
    def __call__(self, x):
        return helper(self.linear(x))

def network(key, outputs):
    return Net(eqx.nn.Linear(1, outputs, key=key))

def loss(output, label):
    return jnp.mean((output - label) ** 2)

def stop(what, news):
    if what == "saved" and sys.argv[2] == "stop":
        os._exit(9)

usual = small_online("toe", num_tasks=1)
learner = make_learner("toe", usual.tasks, usual.protocol, network=network, loss=loss)
run(dataclasses.replace(usual, learner=learner), sys.argv[1], progress=False, checkpoint_seconds=0.0, observe=stop)
"""


@pytest.mark.slow
def test_own_code_is_the_same_in_another_process_until_it_changes(tmp_path: Path) -> None:
    def execute(how: str, old: str = "", new: str = "") -> tuple[int, str]:
        assert old in OWN
        (tmp_path / "own.py").write_text(OWN.replace(old, new) if old else OWN)
        process = start_process(str(tmp_path / "own.py"), str(tmp_path / "run"), how, stderr=subprocess.PIPE)
        _, said = process.communicate(timeout=300)
        return process.returncode, said

    assert execute("stop")[0] == 9
    code, said = execute("go on", "jnp.tanh(x)", "jnp.sin(x)")
    assert code == 1
    assert "InputError" in said
    assert "learner.network has changed" in said
    assert execute("go on")[0] == 0
    assert (tmp_path / "run/summary.json").exists()
    code, said = execute("go on", ") ** 2", ") ** 4")
    assert code == 1
    assert "learner.loss has changed" in said


# Things that go wrong ------------------------------------------------------------------------------------------------


def test_a_learner_that_diverges_stops_with_the_rates_named(tmp_path: Path) -> None:
    usual = small_online()
    hyper = dataclasses.replace(usual.learner.hyper, meta_rate=1e200)  # type: ignore[attr-defined]
    wild = dataclasses.replace(usual, learner=dataclasses.replace(usual.learner, hyper=hyper))
    for _ in range(2):  # the checkpoint it goes on from is good, and the end the same
        with pytest.raises(RunError) as caught:
            run(wild, tmp_path / "run", progress=False, checkpoint_seconds=0.0)
        for word in (
            "not finite",
            "task 1 (",
            "learner.meta_rate",
            f"the last good checkpoint is in {tmp_path / 'run'}",
        ):
            assert word in str(caught.value)
        assert all(hasattr(hyper, name) for name in re.findall(r"learner\.(\w+)", str(caught.value)))
        assert "inputs" not in str(caught.value)
        assert len(read_events(tmp_path / "run")) > 0


def test_a_loss_that_is_not_finite_from_the_start_is_not_blamed_on_the_rates(tmp_path: Path) -> None:
    with pytest.raises(RunError) as caught:
        run(own(loss=lambda output, label: jnp.mean(output - label) * jnp.nan), tmp_path / "run", progress=False)
    for word in ("not finite", "inputs", "labels", "loss"):
        assert word in str(caught.value)
    assert "rate" not in str(caught.value)
    assert "the last good checkpoint" not in str(caught.value), "there is none"
    assert read_events(tmp_path / "run") == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_full_or_read_only_disk_keeps_the_last_checkpoint(
    code: int, whole: dict[str, dict[str, bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[int] = []

    def observe(what: str, news: Any) -> None:
        if what == "saved":
            saved.append(news)
            if len(saved) == 3:
                monkeypatch.setattr(os, "fsync", no_room)

    def no_room(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    with pytest.raises(DataError, match=os.strerror(code)):
        run(small_online(), tmp_path / "run", progress=False, checkpoint_seconds=0.0, observe=observe)
    monkeypatch.undo()
    kept = sorted(int(path.name) for path in (tmp_path / "run/checkpoints").iterdir())
    assert kept == saved[-2:]
    run(small_online(), tmp_path / "run", progress=False)
    assert result(tmp_path / "run") == whole["online"]


def test_a_damaged_checkpoint_is_passed_over(whole: dict[str, dict[str, bytes]], tmp_path: Path) -> None:
    left = iter(range(3, -1, -1))

    def observe(what: str, news: Any) -> None:
        if what == "saved" and next(left) == 0:
            raise Crash

    with pytest.raises(Crash):
        run(small_online(), tmp_path / "run", progress=False, checkpoint_seconds=0.0, observe=observe)
    newest = max((tmp_path / "run/checkpoints").iterdir())
    content = bytearray((newest / "state.safetensors").read_bytes())
    content[len(content) // 2] ^= 1
    (newest / "state.safetensors").write_bytes(content)
    warnings: list[str] = []
    run(small_online(), tmp_path / "run", progress=False, warn=warnings.append)
    assert newest.name in warnings[0]
    assert result(tmp_path / "run") == whole["online"]


@pytest.mark.parametrize("tasks", [1, 4])
def test_a_pause_is_exact_and_leaves_no_trace(
    tasks: int, whole: dict[str, dict[str, bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many rounds were computed at once, a pause comes where its task ends; afterwards all is as without it."""
    paused = []
    for name, seconds in (("short", 1e-9), ("long", 1e9)):  # one round at a time, or as many as there may be
        monkeypatch.setattr(drive, "SECONDS_A_DISPATCH", seconds)
        found = run(small_online(), tmp_path / name, progress=False, until_tasks=tasks)
        assert found.summary is None
        last = found.table.iloc[-1]
        assert (last["position"], last["ended"]) == (tasks - 1, True)
        assert found.table["ended"].sum() == tasks
        (newest,) = sorted((tmp_path / name / "checkpoints").iterdir())[-1:]
        paused.append({file.name: file.read_bytes() for file in newest.iterdir()})
    assert paused[0] == paused[1]
    run(small_online(), tmp_path / "long", progress=False)
    assert result(tmp_path / "long") == whole["online"]
