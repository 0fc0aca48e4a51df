"""What the README and the pages of docs/ show must run, and what they point to must be there."""

from __future__ import annotations

import contextlib
import functools
import io
import re
import runpy
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from anyshot import cli

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [README, *DOCS]


pytestmark = pytest.mark.usefixtures("quick_compilation")


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL)


def name_of(page: object) -> str | None:
    return page.name if isinstance(page, Path) else None


def test_example_prints_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = python_blocks(README)
    assert len(blocks) == 1
    exec(compile(blocks[0], str(README), "exec"), {})  # noqa: S102
    assert re.fullmatch(r"loss \d\.\d{3}, d loss / d log beta -?\d\.\d{3}\n", capsys.readouterr().out)


@pytest.mark.parametrize("page", DOCS, ids=name_of)
def test_examples_of_the_docs_run(page: Path, no_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known: dict[str, object] = {}
    for block in python_blocks(page):
        exec(compile(block, str(page), "exec"), known)  # noqa: S102
        if re.search(r"^(print|run)\(", block, flags=re.MULTILINE):
            assert capsys.readouterr().out


# Links


def slugs(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and mkdocs make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_and_headings_it_names_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    for path, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", text):
        target = page.parent / path if path else page
        assert target.exists(), path
        assert not anchor or anchor in slugs(target), anchor
    for path in re.findall(r"`((?:tests|docs|src|results|benchmarks)/[\w/.-]+)`", text):
        made_by_a_recipe = f"File `{path}`:" in text
        assert made_by_a_recipe or (ROOT / path).exists(), path


def test_the_site_and_its_first_page_have_every_page() -> None:
    nav = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), flags=re.MULTILINE)
    assert sorted(nav) == [page.name for page in DOCS]
    listed = re.findall(r"\]\((\S+\.md)\)", (ROOT / "docs/index.md").read_text("utf-8"))
    assert sorted([*listed, "index.md"]) == sorted(nav)


# Commands


def commands(page: Path) -> list[str]:
    """The `anyshot` commands in a page's blocks."""
    return re.findall(r"^(?: {4}|\$ )(?:eval \"\$\()?(anyshot [^>|)\n]+)", page.read_text("utf-8"), flags=re.MULTILINE)


# What docs/extending.md adds is known only to the copy of the package that tests/test_recipes.py makes.
SHOWN = [(page, line) for page in PAGES if page.name != "extending.md" for line in commands(page)]


@functools.cache
def help_of(*words: str) -> str:
    """What a command says of itself."""
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.suppress(SystemExit):
        import_module(f"anyshot.cli.{words[0]}").main([*words[1:], "--help"])
    assert told.getvalue(), words
    return told.getvalue()


def test_commands_are_shown() -> None:
    assert {line.split()[1] for _, line in SHOWN} == set(cli.COMMANDS)


@pytest.mark.parametrize(("page", "line"), SHOWN, ids=lambda part: name_of(part) or part)
def test_a_command_that_is_shown_is_understood(
    page: Path, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(line, comments=True)[1:]
    if words[0] in ("run", "offline") and not words[1].startswith("--"):  # understood and checked in full, and not run
        monkeypatch.setattr("anyshot.cli.dry_run.describe", lambda *options: print(*options))
        import_module(f"anyshot.cli.{words[0]}").main([*words[1:], "--dry-run"])
        assert capsys.readouterr().out
        return
    told = help_of(*words[: 2 if words[0] == "data" else 1])
    assert "=" not in words[-1] or "NAME=VALUE" in told
    for word, before in zip(words[1:], words, strict=False):
        if word.startswith("--"):
            assert re.search(rf"(?<!\S){word}(?![\w-])", told), f"{word} is no option of {words[0]}"
        elif not before.startswith("--") and "=" not in word and "DIR..." not in told:
            assert re.search(rf"(?<![\w-]){word}(?![\w-])", told), f"{word} is nothing that {words[0]} takes"


def test_commands_in_the_text_exist() -> None:
    for page in PAGES:
        for command in re.findall(r"`anyshot ([a-z]+)", page.read_text("utf-8")):
            assert command in cli.COMMANDS, f"{page.name}: {command}"


# What is written in two places


def test_the_settings_reference_is_what_the_code_says() -> None:
    written = (ROOT / "docs/settings.md").read_text("utf-8")
    assert runpy.run_path(str(ROOT / "docs/reference.py"))["settings_page"]() == written, "run: make docs"


def test_fingerprints_of_the_docs_are_those_of_the_catalogue() -> None:
    from anyshot.tasks.catalogue import CATALOGUE

    told = dict(re.findall(r"\| `([\w-]+)` \|.*`([0-9a-f]{16})` \|", (ROOT / "docs/tasks.md").read_text("utf-8")))
    assert told == {name: one.fingerprint[:16] for name, one in CATALOGUE.items()}
