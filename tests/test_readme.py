"""What the README shows must run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


def test_example_prints_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) == 1
    exec(compile(blocks[0], str(README), "exec"), {})  # noqa: S102
    assert re.fullmatch(r"loss \d\.\d{3}, d loss / d log beta -?\d\.\d{3}\n", capsys.readouterr().out)


def test_files_it_names_exist() -> None:
    text = README.read_text()
    for path in re.findall(r"\]\(([^)#:]+)\)", text) + re.findall(r"`(tests/[\w/.]+)`", text):
        assert (README.parent / path).exists(), path
