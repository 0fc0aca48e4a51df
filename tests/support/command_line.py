"""The command `anyshot` as tests call it: in this process, or in one of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from anyshot.cli import main
from tests.support.refusals import as_a_user_runs_it
from tests.support.small_runs import ONLINE

Anyshot = Callable[..., tuple[int, str, str]]  # exit code, standard output, standard error

SMALL = ONLINE  # takes well below a second once it is compiled
SET = ["--set", *(f"{name}={str(value).strip('()')}" for name, value in SMALL.items())]
RUN = ["run", "sinusoid", "--learner", "ftml-vs", *SET]


def run_here(capsys: pytest.CaptureFixture[str]) -> Anyshot:
    """A function that runs a command in this process."""

    def anyshot(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = 0
        try:
            with as_a_user_runs_it():
                main(words)
        except SystemExit as end:
            code = int(end.code or 0)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return anyshot


def command(*words: str) -> list[str]:
    """What starts `anyshot` in a process of its own."""
    return [sys.executable, "-m", "anyshot", *words]


def interruptible(*words: str, before: str = "") -> list[str]:
    """The same, with Ctrl-C enabled: shells disable it in what they start in the background, tests included.

    Args:
        words: the command and its options.
        before: a program to run first.
    """
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    return [sys.executable, "-c", f"{program}{before}\nfrom anyshot.cli import main; main()", *words]


def environment() -> dict[str, str]:
    """Of such processes: what they compile is kept for the next test run."""
    cache = os.environ.get("JAX_COMPILATION_CACHE_DIR", str(Path(".cache/jax").resolve()))
    return os.environ | {
        "JAX_ENABLE_X64": "0",
        "JAX_COMPILATION_CACHE_DIR": cache,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
    }


def list_files(folder: Path) -> dict[str, bytes | None]:
    """All files and folders with their content."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() and not path.is_symlink() else None
        for path in folder.rglob("*")
        if path.name != "lock"
    }
