"""What the README and the pages of docs/ show must run, and what they point to must be there."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import anyshot
from anyshot.learners import LEARNERS
from anyshot.networks import NETWORKS
from anyshot.tasks.catalogue import CATALOGUE

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [README, ROOT / "CONTRIBUTING.md", *DOCS]

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL)


def page_name(page: Path) -> str:
    return page.name


@pytest.fixture
def as_found() -> object:
    """Names that a page registers are gone again afterwards."""
    registries = (LEARNERS, NETWORKS)
    before = [dict(registry._entries) for registry in registries]
    yield None
    for registry, entries in zip(registries, before, strict=True):
        registry._entries = entries


@pytest.mark.usefixtures("as_found", "no_data")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if page.name == "extending.md" else [], id=page.name)
        for page in PAGES
        if python_blocks(page)
    ],
)
def test_examples_run(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known: dict[str, object] = {"__name__": "__main__"}
    for block in python_blocks(page):
        exec(compile(block, str(page), "exec", dont_inherit=True), known)  # noqa: S102
        if re.search(r"^print\(", block, flags=re.MULTILINE):
            assert capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_files_and_headings_it_names_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    for path, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", text):
        target = page.parent / path if path else page
        assert target.exists(), path
        assert not anchor or anchor in slugs(target), anchor
    for path in re.findall(r"`((?:tests|docs|src|paper|benchmarks|examples)/[a-z0-9_/.-]+)`", text):
        assert (ROOT / path).exists(), path


def slugs(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and mkdocs make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_architecture_names_what_is_there() -> None:
    """Each module and name in the table of a datapoint's way, and in the table of what to touch, exists."""
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    hops = re.findall(r"^\| \d+ \|", text, flags=re.MULTILINE)
    assert 8 <= len(hops) <= 12
    source = ROOT / "src/anyshot"
    modules = re.findall(r"`((?:\w+/)+\w+\.py)`", text)
    assert len(modules) > 20
    for module in modules:
        assert (source / module).exists() or (ROOT / module).exists(), module
    for module, name in re.findall(r"`(\w+/\w+\.py)` `([\w.]+)`", text):
        written = (source / module).read_text("utf-8")
        assert re.search(rf"\b(def|class) {name.split('.')[-1]}\b", written), (module, name)


def test_the_site_and_its_first_page_have_every_page() -> None:
    nav = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), flags=re.MULTILINE)
    assert sorted(nav) == [page.name for page in DOCS]
    listed = re.findall(r"\]\((\S+\.md)\)", (ROOT / "docs/index.md").read_text("utf-8"))
    assert sorted([*listed, "index.md"]) == sorted(nav)


def test_the_settings_page_is_what_the_code_says() -> None:
    written = (ROOT / "docs/settings.md").read_text("utf-8")
    assert runpy.run_path(str(ROOT / "docs/reference.py"))["settings_page"]() == written, "run: make docs"


def test_fingerprints_of_the_docs_are_those_of_the_catalogue() -> None:
    shown = dict(re.findall(r"\| `([\w-]+)` \|.*`([0-9a-f]{16})` \|", (ROOT / "docs/tasks.md").read_text("utf-8")))
    assert shown == {name: entry.fingerprint[:16] for name, entry in CATALOGUE.items()}


def test_public_names_are_there_and_listed() -> None:
    assert set(anyshot.__all__) <= set(dir(anyshot))
    for name in dir(anyshot):
        assert getattr(anyshot, name) is not None
