"""Every `anyshot` command that README and the pages of docs/ show is accepted."""

from __future__ import annotations

import functools
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from anyshot.cli import app
from anyshot.cli.data import data
from tests.support.command_line import Anyshot

pytestmark = pytest.mark.medium

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands(page: Path) -> list[str]:
    """The commands in a page's blocks."""
    return re.findall(r"^(?: {4}|\$ )(?:eval \"\$\()?(anyshot [^>|)\n]+)", page.read_text("utf-8"), flags=re.MULTILINE)


# Learners that docs/extending.md registers are known only to the process that does so.
SHOWN = [(page.name, line) for page in PAGES if page.name != "extending.md" for line in commands(page)]


def test_every_command_is_shown() -> None:
    assert {line.split()[1] for _, line in SHOWN} == set(app.COMMANDS)


@pytest.mark.parametrize(("page", "line"), SHOWN)
def test_a_command_that_is_shown_is_accepted(
    page: str, line: str, here: Path, anyshot_here: Anyshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = shlex.split(line, comments=True)[1:]
    called: list[Any] = []

    def stub(function: Any) -> Any:
        """The same arguments, and nothing done."""
        return functools.wraps(function)(lambda *given, **named: called.append((given, named)))

    for name, (function, summary) in app.COMMANDS.items():
        if function is not None:
            monkeypatch.setitem(app.COMMANDS, name, (stub(function), summary))
    for spec in data._subcommands.values():
        monkeypatch.setattr(spec, "target", stub(spec.target))
    monkeypatch.setattr(app, "resume", stub(app.resume))
    if words[0] == "run" and words[1] != "--resume":  # checked in full, and not run
        code, printed, error = anyshot_here(*words, *([] if "--dry-run" in words else ["--dry-run"]))
        assert (code, error) == (0, "")
        assert "protocol." in printed
    else:
        code, _, error = anyshot_here(*words)
        assert (code, error) == (0, "")
        assert len(called) == 1
    assert {place.name for place in here.iterdir()} <= {".cache"}, "only what JAX compiled, where its cache is relative"


def test_commands_in_the_text_exist() -> None:
    for page in PAGES:
        for command in re.findall(r"`anyshot ([a-z]+)", page.read_text("utf-8")):
            assert command in app.COMMANDS, f"{page.name}: {command}"
