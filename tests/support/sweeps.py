"""Sweeps that take seconds, started as a user starts them, and what must be the same however they came to their end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from anyshot.runs.reading import find_runs
from tests.support.small_runs import ONLINE
from tests.support.toy_runs import ROOT

SMALL: dict[str, Any] = {name: list(value) if isinstance(value, tuple) else value for name, value in ONLINE.items()}


def spec_text(content: Mapping[str, Any]) -> str:
    """A spec as TOML: strings, numbers, lists and tables of them."""
    plain = [f"{name} = {_value(value)}" for name, value in content.items() if not isinstance(value, dict)]
    tables = [
        f"\n[{name}]\n" + "\n".join(f'"{key}" = {_value(value)}' for key, value in table.items())
        for name, table in content.items()
        if isinstance(table, dict)
    ]
    return "\n".join(plain + tables) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}" = {_value(part)}' for key, part in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else repr(value)


def start_python(program: str, *words: str, **variables: str) -> subprocess.Popen[str]:
    """A program in a process of its own, which computes as tests with `quick_compilation` do."""
    environment = {
        "JAX_COMPILATION_CACHE_DIR": str(ROOT / ".cache/jax"),
        **os.environ,
        "JAX_ENABLE_X64": "1",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        **variables,
    }
    return subprocess.Popen(
        [sys.executable, "-c", program, *words],
        env=environment,
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def start_sweep(spec: Path, out: Path, *words: str, **variables: str) -> subprocess.Popen[str]:
    """`anyshot sweep`, with Ctrl-C enabled."""
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    program += "from anyshot.cli import main; main()"
    how = ("sweep", str(spec), "--out", str(out), "--checkpoint-seconds", "0", *words)
    return start_python(program, *how, **variables)


def finish(process: subprocess.Popen[str], code: int = 0, seconds: float = 900) -> str:
    """Wait for the end, and give what was printed."""
    said, _ = process.communicate(timeout=seconds)
    assert process.returncode == code, said
    assert "Traceback" not in said
    return str(said)


def wait_until(what: Callable[[], object], process: subprocess.Popen[str], seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.02)


def count_finished(out: Path) -> int:
    return len([*out.glob("*/*/summary.json")])


def count_events(out: Path) -> int:
    return sum(log.read_bytes().count(b"\n") for log in out.glob("*/*/events.jsonl"))


def results(out: Path) -> dict[str, dict[str, bytes]]:
    """The bytes of all runs, finished or stopped, by the names of their folders."""
    found = {}
    for folder in find_runs([out]):
        (last,) = sorted((folder / "checkpoints").iterdir())[-1:]
        files = [*folder.glob("e[vx]*.json*"), *folder.glob("summary.json"), *last.iterdir()]
        found[str(folder.relative_to(out))] = {str(file.relative_to(folder)): file.read_bytes() for file in files}
        assert {"events.jsonl", "experiment.json"} <= {file.name for file in files}
    return found
