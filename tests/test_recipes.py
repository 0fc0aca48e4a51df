"""The recipes of docs/extending.md, applied as they are written to a copy of the package, do what the page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/extending.md").read_text("utf-8")
RECIPES = dict(re.findall(r"^## (A[^\n]*)\n(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE))
SMALL = "--protocol.tasks 2 --protocol.max-steps 10 --protocol.tasks-per-update 2 --device cpu --quiet"


def apply(recipe: str, root: Path) -> None:
    """Do what a recipe says: write its files, and add its lines, each behind the one that is shown above it."""
    for path, text in re.findall(r"^File `(src/[\w/.]+)`:\n\n```python\n(.*?)```", recipe, re.DOTALL | re.MULTILINE):
        (root / path).write_text(text, "utf-8")
    (changes,) = re.findall(r"```diff\n(.*?)```", recipe, flags=re.DOTALL)
    place, lines, at = root, [""], 0
    for change in changes.splitlines():
        if change.startswith("--- "):
            place = root / change.removeprefix("--- ")
            lines = place.read_text("utf-8").splitlines()
        elif change.startswith("+"):
            at += 1
            lines.insert(at, change[1:])
            place.write_text("\n".join(lines) + "\n", "utf-8")
        else:
            assert lines.count(change[1:]) == 1, f"{place} has not exactly one line {change[1:]!r}"
            at = lines.index(change[1:])


def contents(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text("utf-8") for path in root.rglob("*.py")}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package as it is."""
    root = tmp_path_factory.mktemp("package")
    shutil.copytree(ROOT / "src/anyshot", root / "src/anyshot", ignore=shutil.ignore_patterns("__pycache__"))
    return root


@pytest.fixture(scope="module")
def done(package: Path) -> dict[str, tuple[set[str], dict[str, int]]]:
    """All recipes done, one after another: for each the new files, and the lines more in each file that changed."""
    found = {}
    for name, recipe in RECIPES.items():
        before = contents(package)
        apply(recipe, package)
        after = contents(package)
        changed = {path: text for path, text in before.items() if after[path] != text}
        more = {path: after[path].count("\n") - text.count("\n") for path, text in changed.items()}
        found[name] = set(after) - set(before), more
    return found


def test_the_page_has_the_four_recipes() -> None:
    assert list(RECIPES) == ["A task set", "A network", "A rate rule", "A learner"]


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_takes_what_the_page_says(name: str, done: dict[str, tuple[set[str], dict[str, int]]]) -> None:
    (promised,) = re.findall(rf"^\| \[{name.lower()}\].*?\| (\d+) \| (\d+) in (\d+) ", PAGE, flags=re.MULTILINE)
    new, changed = done[name]
    assert (len(new), sum(changed.values()), len(changed)) == tuple(map(int, promised))
    if name != "A task set":  # its entry is longer
        assert promised == ("1", "1", "1"), "CONTRIBUTING.md says one file plus one line"


def python(package: Path, folder: Path, *words: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(package / "src"), "ANYSHOT_CACHE": str(folder / "cache")}
    environment.pop("ANYSHOT_DATA", None)
    ended = subprocess.run([sys.executable, *words], env=environment, cwd=folder, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "warning" not in ended.stderr, ended.stderr
    return ended.stdout


def anyshot(package: Path, folder: Path, *words: str) -> str:
    return python(package, folder, "-c", "from anyshot.cli import main; main()", *words)


@pytest.mark.usefixtures("done")
def test_the_package_then_knows_them_by_name(package: Path, tmp_path: Path) -> None:
    listed = anyshot(package, tmp_path, "learners")
    assert re.search(r"^  ftml-root +FTML with a step size that grows", listed, flags=re.MULTILINE)
    assert re.search(r"^  average +the average label", listed, flags=re.MULTILINE)
    assert "as it should be" in anyshot(package, tmp_path, "data", "fetch", "parabolas")
    commands = re.findall(r"^ {4}(anyshot .+)$", PAGE, flags=re.MULTILINE)
    assert len(commands) == len(RECIPES)
    understood = "from anyshot.cli import dry_run, run; dry_run.describe = print; run.main(['{}', '--dry-run'])"
    for command in commands:  # understood and checked, not run
        assert python(package, tmp_path, "-c", understood.format("', '".join(command.split()[2:])))


@pytest.mark.usefixtures("done")
@pytest.mark.parametrize(
    "new",
    ["--learner ftml-root --data.name parabolas --network.kind waves", "--learner average"],
    ids=["rest", "learner"],
)
def test_the_package_then_runs_them(new: str, package: Path, tmp_path: Path) -> None:
    anyshot(package, tmp_path, "run", "sinusoid", "--out", "run", *f"{new} {SMALL}".split())
    assert new.split()[1] in anyshot(package, tmp_path, "compare", "run", "--format", "csv")


def test_what_the_recipes_add_is_clean(
    done: dict[str, tuple[set[str], dict[str, int]]], package: Path, tmp_path: Path
) -> None:
    touched = sorted({str(package / path) for new, changed in done.values() for path in (*new, *changed)})
    for words in (["check"], ["format", "--check"]):
        python(
            package, tmp_path, "-m", "ruff", *words, "--config", str(ROOT / "pyproject.toml"), "--no-cache", *touched
        )
    examples = "import doctest, sys; import {0}, {1}; sys.exit(any(doctest.testmod(m).failed for m in ({0}, {1})))"
    python(package, tmp_path, "-c", examples.format("anyshot.rates.root", "anyshot.networks.waves"))
