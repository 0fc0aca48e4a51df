"""Runs whose tasks are shared among devices and hosts: what they write, how they go on, and what is refused."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

import anyshot
from anyshot.runs.files import sealed
from anyshot.runs.reading import read_environment
from tests.support.command_line import RUN, command, environment
from tests.support.refusals import assert_refused
from tests.support.small_runs import small_online

pytestmark = pytest.mark.medium


def result(folder: Path) -> dict[str, bytes]:
    names = ("events.jsonl", "summary.json", "experiment.json")
    newest = max((folder / "checkpoints").iterdir())
    return {file.name: file.read_bytes() for file in (*(folder / name for name in names), *sorted(newest.iterdir()))}


def forget_the_end(folder: Path) -> None:
    """Bring the folder back to its checkpoint before the last."""
    (folder / "summary.json").unlink()
    shutil.rmtree(max((folder / "checkpoints").iterdir()))


def test_more_devices_than_there_is_work_for_are_refused() -> None:
    """Before anything is written."""
    assert_refused(lambda: anyshot.run(small_online("toe"), devices=9), ["devices is 9", "JAX has"])
    assert_refused(lambda: anyshot.run(small_online(), devices=0), ["devices", "at least 1", "0"])


def test_a_run_of_more_devices_than_there_are_is_refused_unless_their_number_is_said(tmp_path: Path) -> None:
    experiment = small_online(num_tasks=1, max_steps=6)
    whole, folder = tmp_path / "whole", tmp_path / "run"
    anyshot.run(experiment, whole, progress=False, checkpoint_seconds=0.0)
    shutil.copytree(whole, folder)
    forget_the_end(folder)
    (folder / "environment.json").write_bytes(sealed([{**read_environment(folder)[0], "sharing": 64}]))
    assert_refused(lambda: anyshot.run(experiment, folder, progress=False), ["64 devices", "use_cpu_cores(64)"])
    heard: list[str] = []
    anyshot.run(experiment, folder, progress=False, checkpoint_seconds=0.0, devices=1, warn=heard.append)
    assert len(heard) == 1
    assert "64" in heard[0]
    assert result(folder) == result(whole)
    assert [opening["sharing"] for opening in read_environment(folder)] == [64, 1]


@pytest.mark.slow
def test_hosts_and_devices_give_the_same_bytes_and_go_on_exactly(tmp_path: Path) -> None:
    """Two processes of one device each, one process of two devices, and both again from a checkpoint in the middle."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    words = [*RUN, "protocol.num_tasks=2", "--device", "cpu", "--checkpoint-seconds", "0"]

    def run_on_hosts(folder: Path, words: list[str]) -> None:
        running = [
            subprocess.Popen(command(*words, "--hosts", address, "2", str(number)), env=environment())
            for number in range(2)
        ]
        assert [process.wait(600) for process in running] == [0, 0]

    one, two = tmp_path / "one", tmp_path / "two"
    subprocess.run(command(*words, "--devices", "2", "--out", str(one)), env=environment(), check=True)
    run_on_hosts(two, [*words, "--devices", "2", "--out", str(two)])
    finished = result(one)
    assert result(two) == finished
    for folder in (one, two):
        forget_the_end(folder)
    subprocess.run(command("run", "--resume", str(one), "--checkpoint-seconds", "0"), env=environment(), check=True)
    run_on_hosts(two, ["run", "--resume", str(two), "--device", "cpu", "--checkpoint-seconds", "0"])
    assert result(one) == result(two) == finished
    assert [[opening[name] for name in ("hosts", "sharing")] for opening in read_environment(two)] == [[2, 2]] * 2
