"""The scripts in examples/ run as they are, from a folder of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
OWN_ARRAYS = ROOT / "examples/own_arrays.py"


def run(folder: Path, *words: str) -> str:
    quickly = {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    ended = subprocess.run(
        [sys.executable, *words], cwd=folder, env=os.environ | quickly, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_own_arrays(tmp_path: Path) -> None:
    text = OWN_ARRAYS.read_text("utf-8")
    assert len([line for line in text.splitlines() if line.strip()]) <= 25
    assert not re.search(r"\b_\w+|\._", text)  # no private name
    trained = run(tmp_path, str(OWN_ARRAYS))
    assert "toe" in trained
    assert "ftml-vs" in trained
    page = (tmp_path / "own-runs/report.html").read_text("utf-8")
    assert "anyshot run" not in page  # no command can make own arrays again
    shares = re.findall(r"(\d+) labels: (\d\.\d\d) right", run(tmp_path, str(OWN_ARRAYS), "predict"))
    assert [int(shots) for shots, _ in shares] == [0, 3, 10]
    assert float(shares[-1][1]) >= float(shares[0][1]) > 0.5


def test_customers(tmp_path: Path) -> None:
    printed = run(tmp_path, str(ROOT / "examples/customers.py"), "23")
    stopped = re.findall(r"customer 22: .* (\d+) labels, accuracy (\d\.\d\d);.*; (stop|hopeless): ", printed)
    assert len(stopped) == 1
    assert re.search(r"after the first 22 customers: \d", printed)
