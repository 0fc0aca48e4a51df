"""The demo runs from start to report, and answers wrong arguments with one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run_demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    # Two meta-steps are not worth optimising the compiled program for; that would be most of the time.
    quick = {
        "JAX_COMPILATION_CACHE_DIR": str(ROOT / ".cache/jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.5",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    }
    command = [sys.executable, str(ROOT / "examples/demo.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=quick | os.environ)


def test_writes_a_report_and_names_it_last(tmp_path: Path) -> None:
    out = tmp_path / "new" / "report"
    done = run_demo("--steps", "2", "--out", str(out))
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.name for path in out.iterdir()) == ["figure.png", "report.md"]
    assert (out / "figure.png").read_bytes().startswith(b"\x89PNG")
    report = (out / "report.md").read_text(encoding="utf-8")
    assert "](figure.png)" in report
    assert "| MAML-VS " in report
    assert done.stdout.splitlines()[-1].endswith(str(out / "report.md"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--steps", "0"], "--steps must be at least 1, got 0"),
        (["--steps", "many"], "--steps: invalid int value: 'many'"),
        (["--seed", "-1"], "--seed must be from 0 to"),
        (["--out", __file__], "--out must be a folder that can be written to"),
        (["--out", "/proc/report"], "--out must be a folder that can be written to"),
        (["--colour", "red"], "unrecognized arguments: --colour red"),
    ],
)
def test_wrong_arguments_are_answered_with_one_sentence(tmp_path: Path, arguments: list[str], said: str) -> None:
    out = tmp_path / "report"
    done = run_demo("--out", str(out), *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not out.exists()
