"""What the tests of the command line share."""

from __future__ import annotations

from pathlib import Path

import pytest

import anyshot
from anyshot.cli import bench, demo, dry_run
from anyshot.cli import run as run_module
from tests.support.command_line import SMALL, Anyshot, run_here


@pytest.fixture
def anyshot_here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Anyshot:
    """Runs a command in this process, where JAX has started already."""
    for module in (run_module, demo, bench, dry_run):
        monkeypatch.setattr(module, "use_device", lambda *words: None)
    return run_here(capsys)


@pytest.fixture
def here(no_data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the current one."""
    folder = no_data / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run of TOE. Copy it before you change anything."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    anyshot.run(anyshot.make_experiment("sinusoid", "toe", settings=SMALL), folder, progress=False)
    return folder
