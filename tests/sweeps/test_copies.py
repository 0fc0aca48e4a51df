"""Copies of runs in an object store: what comes back goes on as if nothing had happened."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from anyshot import run
from anyshot.errors import DataError
from anyshot.sweeps.copies import RunCopies
from tests.support.refusals import assert_refused
from tests.support.small_runs import small_online
from tests.support.sweeps import results

pytest.importorskip("fsspec")
pytestmark = [pytest.mark.medium, pytest.mark.usefixtures("quick_compilation")]
NAME = "own/toe-s0"


def run_until(folder: Path, tasks: int | None) -> None:
    run(small_online("toe"), folder, progress=False, checkpoint_seconds=0.0, until_tasks=tasks)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"memory://{tmp_path}/copies"


def test_a_run_that_comes_back_ends_with_the_same_bytes(tmp_path: Path, url: str) -> None:
    """Copied in the middle and at its end, with a copy that is cut off in between."""
    here, there, later = tmp_path / "here", tmp_path / "there", tmp_path / "later"
    copies = RunCopies(url)
    run_until(here / NAME, 2)
    copies.send(here / NAME, NAME)
    run_until(here / NAME, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copies._store, "mv", cut_off)
        with pytest.raises(DataError, match="the cable is loose"):
            copies.send(here / NAME, NAME)
    assert RunCopies(url).fetch(there) == [NAME]
    assert not (there / NAME / "summary.json").exists()
    assert 0 < len(lines(there)) < len(lines(here))
    assert lines(here)[: len(lines(there))] == lines(there)
    run_until(there / NAME, None)
    assert results(there) == results(here)
    copies.send(here / NAME, NAME)
    assert RunCopies(url).fetch(later) == [NAME]
    assert results(later) == results(here)
    assert RunCopies(url).fetch(here) == [], "what is here stays"


def lines(out: Path) -> list[str]:
    return (out / NAME / "events.jsonl").read_text().splitlines()


def cut_off(*words: Any) -> None:
    raise OSError("the cable is loose")


def test_what_has_not_changed_is_not_copied_again(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = RunCopies(url)
    copies.send(tmp_path / "nothing", NAME)
    assert copies.fetch(tmp_path / "out") == []
    run_until(tmp_path / NAME, 1)
    copies.send(tmp_path / NAME, NAME)
    monkeypatch.setattr(copies._store, "mv", cut_off)
    copies.send(tmp_path / NAME, NAME)
    RunCopies(url).send_missing(tmp_path, [NAME])
    with pytest.raises(DataError, match="the cable is loose"):
        RunCopies(f"{url}/others").send_missing(tmp_path, [NAME])


@pytest.mark.parametrize(
    ("key", "member", "word"),
    [
        ("../out", "experiment.json", "outside"),
        ("../x", "experiment.json", "outside"),
        ("a/b", "../../letter", "damaged"),
        ("a/b", None, "damaged"),
    ],
)
def test_a_copy_that_is_none_is_refused_and_nothing_is_written(
    key: str, member: str | None, word: str, tmp_path: Path, url: str
) -> None:
    copies, packed = RunCopies(url), io.BytesIO()
    if member is not None:
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.addfile(tarfile.TarInfo(member))
    (tmp_path / "out").mkdir()
    copies._store.pipe_file(f"{copies._root}/x", packed.getvalue())
    copies._store.store[f"{copies._root}/{key}.tar"] = copies._store.store.pop(f"{copies._root}/x")
    with pytest.raises(DataError, match=word):
        copies.fetch(tmp_path / "out")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("wrong", [None, 3, "", "folder", "nosuchstore://bucket/x", "file:///proc/nowhere/x"])
def test_urls_that_cannot_be_are_refused(wrong: Any) -> None:
    assert_refused(lambda: RunCopies(wrong), ["mirror", str(wrong)])
