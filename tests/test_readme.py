"""What the README shows must run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
DOCS = sorted((README.parent / "docs").glob("*.md"))


def test_example_prints_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) == 1
    exec(compile(blocks[0], str(README), "exec"), {})  # noqa: S102
    assert re.fullmatch(r"loss \d\.\d{3}, d loss / d log beta -?\d\.\d{3}\n", capsys.readouterr().out)


def test_files_it_names_exist() -> None:
    text = README.read_text()
    for path in re.findall(r"\]\(([^)#:]+)\)", text) + re.findall(r"`(tests/[\w/.]+)`", text):
        assert (README.parent / path).exists(), path


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_examples_of_the_docs_run(page: Path, no_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
        exec(compile(block, str(page), "exec"), known)  # noqa: S102
        if "print(" in block:
            assert capsys.readouterr().out


def test_fingerprints_of_the_docs_are_those_of_the_catalogue() -> None:
    from anyshot.tasks.catalogue import CATALOGUE

    told = dict(re.findall(r"\| `([\w-]+)` \|.*`([0-9a-f]{16})` \|", (README.parent / "docs/tasks.md").read_text()))
    assert told == {name: one.fingerprint[:16] for name, one in CATALOGUE.items()}
