"""`--hosts`: what is said while others are waited for, and what ends the waiting."""

from __future__ import annotations

import signal
import socket
import subprocess
from pathlib import Path

import pytest

from anyshot.cli.hosts import join_hosts
from tests.support.command_line import RUN, environment, interruptible
from tests.support.refusals import assert_refused

pytestmark = pytest.mark.medium
PATIENCE = "from anyshot.cli import hosts; hosts.SECONDS_TO_JOIN = {}"


def free_address() -> str:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return f"localhost:{free.getsockname()[1]}"


@pytest.mark.parametrize(("number", "whom"), [(0, "2 other processes of 3"), (1, "the first process and 1 more of 3")])
def test_a_host_that_waits_says_so_and_gives_up(number: int, whom: str, tmp_path: Path) -> None:
    address, patience = free_address(), 2 if number == 0 else 60
    words = [*RUN, "--out", str(tmp_path / "run"), "--device", "cpu", "--hosts", address, "3", str(number)]
    with subprocess.Popen(
        interruptible(*words, before=PATIENCE.format(patience)),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = next(line for line in process.stdout if "waiting" in line)
        assert f"{whom} at {address}, {patience} s at most" in said
        if number == 1:
            process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == (1 if number == 0 else 130)
    assert error.count("\n") == 1
    assert f"{whom} at {address}" in error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        (("here", 2, 0), ["HOST:PORT", "'here'"]),
        (("here:port", 2, 0), ["HOST:PORT", "'here:port'"]),
        (("here:99999", 2, 0), ["HOST:PORT", "'here:99999'"]),
        (("here:1", 2, 2), ["from 0", "2 and 2"]),
        (("here:1", 0, 0), ["from 0", "0 and 0"]),
        ("auto", ["--hosts is auto", "Slurm", "HOST:PORT"]),
    ],
)
def test_hosts_that_cannot_be_are_refused(hosts: str | tuple[str, int, int], words: list[str]) -> None:
    assert_refused(lambda: join_hosts(hosts, print), words)
