"""Sweeps in local processes: killed, stopped, changed, failing; afterwards as if nothing had happened."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from anyshot import run, sweep
from anyshot.errors import InputError
from anyshot.sweeps.plan import make_plan
from anyshot.sweeps.results import FolderResults
from anyshot.sweeps.spec import read_spec
from anyshot.sweeps.sweeping import check_spec
from anyshot.sweeps.trials import list_candidates
from tests.support import own_experiments
from tests.support.sweeps import (
    SMALL,
    count_events,
    count_finished,
    finish,
    results,
    spec_text,
    start_python,
    start_sweep,
    wait_until,
)

pytestmark = pytest.mark.medium

BASE: dict[str, Any] = {"experiments": ["sinusoid"], "learners": ["toe"], "seeds": [0, 1], "settings": SMALL}
SPEC = BASE | {"grid": {"protocol.batch_size": [100, 20]}}


def write(path: Path, **changes: Any) -> Path:
    path.write_text(spec_text((BASE if "search" in changes else SPEC) | changes))
    return path


def run_without_a_sweep(out: Path) -> None:
    for candidate in list_candidates(read_spec(SPEC)):
        for seed in SPEC["seeds"]:
            run(candidate.make(seed), out / f"{candidate.name}-s{seed}", progress=False)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same runs, one after another in one process and without a sweep."""
    out = tmp_path_factory.mktemp("undisturbed")
    program = f"import pathlib; from {__name__} import *; run_without_a_sweep(pathlib.Path({str(out)!r}))"
    finish(start_python(program))
    return out


def test_killed_interrupted_and_changed_it_ends_with_the_same_bytes(undisturbed: Path, tmp_path: Path) -> None:
    spec, out = write(tmp_path / "spec.toml", seeds=[0]), tmp_path / "out"
    first = start_sweep(spec, out, "--workers", "1")
    wait_until(lambda: count_events(out), first)
    first.kill()  # the workers save and end by themselves, and the next sweep waits for them
    first.communicate()
    write(spec)
    second = start_sweep(spec, out, "--workers", "1")
    wait_until(lambda: list(out.glob("*/*-s1/events.jsonl")), second)  # the first sweep knew no such run
    second.send_signal(signal.SIGINT)
    said = finish(second, 130)
    assert "left in" in said
    assert f"anyshot sweep {spec} --out {out}" in said
    said = finish(start_sweep(spec, out))
    assert "Difference to toe" in said
    assert results(out) == results(undisturbed)
    before_all = {log: log.stat().st_mtime_ns for log in out.rglob("environment.json")}
    found = sweep(spec, out, progress=False)
    assert len(found.finished) == 4
    assert {log: log.stat().st_mtime_ns for log in out.rglob("environment.json")} == before_all, "none is opened again"


@pytest.mark.slow
def test_after_the_machine_was_lost_it_goes_on_elsewhere_from_the_mirror(undisturbed: Path, tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    spec, lost, out = write(tmp_path / "spec.toml"), tmp_path / "lost", tmp_path / "out"
    mirror = ("--mirror", f"file://{tmp_path}/mirror")
    first = start_sweep(spec, lost, "--workers", "1", *mirror)
    wait_until(lambda: [*tmp_path.glob("mirror/*/*.tar")], first)
    first.kill()
    first.communicate()
    said = finish(start_sweep(spec, out, *mirror))
    assert "fetched from file://" in said
    assert results(out) == results(undisturbed)
    assert len([*tmp_path.glob("mirror/*/*.tar")]) == 4


@pytest.mark.slow
def test_a_failed_run_does_not_stop_the_others(undisturbed: Path, tmp_path: Path) -> None:
    """A full disk, in a worker of its own: every write of a log fails there."""
    spec, out = write(tmp_path / "spec.toml"), tmp_path / "out"
    faulty = str(Path(__file__).parent.parent / "support" / "faulty_node")
    paths = os.pathsep.join([faulty, os.environ.get("PYTHONPATH", "")])
    said = finish(start_sweep(spec, out, "--workers", "1", PYTHONPATH=paths, FAULTY_NODE="full:-s1/"), 1)
    last = said.strip().splitlines()[-1]
    assert "2 failed" in last
    assert "No space left on device" in last
    assert count_finished(out) == 2
    finish(start_sweep(spec, out, "--workers", "1"))
    assert results(out) == results(undisturbed)


def test_own_experiments_are_made_by_name_and_known_by_what_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_compilation: None
) -> None:
    spec = read_spec({"experiments": [f"{own_experiments.__name__}:make_small"], "grid": {"tasks": [1, 2]}})
    candidates = list_candidates(spec)
    assert [one.make(5).protocol.num_tasks for one in candidates] == [1, 2]  # type: ignore[union-attr]
    run(candidates[0].make(0), tmp_path / f"{candidates[0].name}-s0", progress=False)
    check_spec(spec, tmp_path)
    assert len(make_plan(spec).legs(FolderResults(tmp_path))) == 1
    changed = own_experiments.make_small
    monkeypatch.setattr(own_experiments, "make_small", lambda learner, seed, settings: changed("ftml", seed, settings))
    with pytest.raises(InputError, match="holds another experiment"):
        check_spec(spec, tmp_path)


SEARCH: dict[str, Any] = {
    "learners": ["ftml"],
    "seeds": [0, 1],
    "search": {"trials": 4, "space": {"learner.inner_rate": {"low": 0.001, "high": 0.3, "log": True}}},
    "stopping": {"tasks": [2, 4], "factor": 2.0},
}


@pytest.mark.slow
def test_a_search_that_is_killed_stops_the_same_candidates_at_the_same_bytes(tmp_path: Path) -> None:
    spec, out = write(tmp_path / "spec.toml", **SEARCH), tmp_path / "out"
    killed = 0
    while killed < 3:
        process = start_sweep(spec, out, "--workers", "2")
        before = count_events(out)
        wait_until(lambda before=before: count_events(out) > before + 10, process)  # type: ignore[misc]
        process.kill()
        process.communicate()
        killed += 1
    said = finish(start_sweep(spec, out, "--workers", "2"))
    assert "Stopped after" in said
    assert count_finished(out) < 8
    finish(start_sweep(spec, tmp_path / "undisturbed", "--workers", "1"))
    assert results(out) == results(tmp_path / "undisturbed")
