"""Run folders: processes are killed, crash at every call, disks are full, bytes flip; the end is the same bytes."""

from __future__ import annotations

import errno
import functools
import itertools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from anyshot.errors import DataError, InputError
from anyshot.runs.files import sealed, sha256, unsealed
from anyshot.runs.folder import RunFolder
from anyshot.runs.reading import read_events, read_experiment, read_summary
from anyshot.runs.records import ExperimentRecord
from tests.support.faults import CHANGES, Crash, damages, fault, put
from tests.support.toy_runs import (
    EXPERIMENT,
    Stop,
    content,
    newest,
    no_warning,
    start_script,
    toy,
    toy_event,
    toy_summary,
)

pytestmark = pytest.mark.medium


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What a run that was never interrupted leaves."""
    path = tmp_path_factory.mktemp("whole") / "run"
    toy(path)
    return content(path)


@pytest.fixture(scope="module")
def halfway(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped in round 7, after checkpoints 4 and 6."""
    path = tmp_path_factory.mktemp("halfway") / "run"
    with pytest.raises(Stop):
        toy(path, stop=7)
    return path


@pytest.fixture(autouse=True, scope="module")
def without_waiting_for_the_disk() -> Iterator[None]:
    """Processes die here, not machines: what the system has, it keeps. Those that are killed do wait."""
    with patch.object(os, "fsync", lambda handle: None):
        yield


def test_a_run_leaves_what_it_says(whole: dict[str, bytes], tmp_path: Path) -> None:
    toy(tmp_path / "a/b")
    toy(tmp_path / "a/b")
    assert content(tmp_path / "a/b") == whole
    parts = ("events.jsonl", "info.json", "manifest.json", "state.safetensors")
    parts = tuple(f"checkpoints/{number:010d}/{name}" for number in (8, 9) for name in parts)
    assert sorted(whole) == sorted([*parts, "events.jsonl", "experiment.json", "summary.json"])
    assert read_experiment(tmp_path / "a/b") == EXPERIMENT
    events = read_events(tmp_path / "a/b")
    assert [event.position for event in events] == sorted([*range(9)] * 2)  # type: ignore[union-attr]
    assert whole["events.jsonl"].splitlines()[1] == json.dumps(events[1].to_json(), separators=(",", ":")).encode()
    assert read_summary(tmp_path / "a/b") is not None
    assert len(unsealed((tmp_path / "a/b/environment.json").read_bytes())) == 2


@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_killed_at_any_moment_it_ends_the_same(kills: int, tmp_path: Path) -> None:
    process = start_script("kill", str(tmp_path), "1", str(kills))
    out = process.communicate(timeout=300)[0]
    assert process.returncode == 0
    hit = json.loads(out)
    assert hit["kills"] >= kills
    assert hit["saving"] >= kills // 10  # a large part of the run is spent there


# Faults at every call ------------------------------------------------------------------------------------------------


def test_a_crash_at_every_call(whole: dict[str, bytes], tmp_path: Path) -> None:
    for number in itertools.count(1):
        path = tmp_path / str(number)
        with fault(number, Crash()) as calls, suppress(Crash):
            toy(path)
        if len(calls) < number:
            break
        toy(path)  # without a warning: a crash damages nothing
        assert content(path) == whole, number
    assert number > 100
    assert set(calls) == set(CHANGES)


@settings(max_examples=15)
@given(numbers=st.lists(st.integers(1, 150), min_size=2, max_size=5))
def test_crashes_while_recovering_from_crashes(numbers: list[int], whole: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            with fault(number, Crash()), suppress(Crash):
                toy(Path(folder))
        toy(Path(folder))
        assert content(Path(folder)) == whole


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_disk_that_takes_no_more(number: int, whole: dict[str, bytes], tmp_path: Path) -> None:
    step, reached = 1 if number == errno.ENOSPC else 7, [0]
    for nth in itertools.count(1, step):
        path = tmp_path / str(nth)
        path.mkdir()
        said = None
        with fault(nth, OSError(number, os.strerror(number))) as calls:
            try:
                toy(path)
            except DataError as error:
                said = str(error)
        if said is None:
            assert len(calls) < nth
            break
        assert said.startswith(f"cannot write into {path}")
        assert os.strerror(number) in said
        assert not list(path.rglob(".unfinished-*"))
        # Without a warning: what was there before is good.
        found = newest(path) if (path / "experiment.json").exists() else None
        reached.append(found.number if found else 0)
        toy(path)
        assert content(path) == whole, nth
    assert nth > 80
    assert reached == sorted(reached)
    assert set(reached) == {0, 2, 4, 6, 8, 9}


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    disk, run = tmp_path / "disk", tmp_path / "disk/run"
    disk.mkdir()
    if shutil.which("mount") is None or mount("-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)):
        pytest.skip("cannot mount a small disk here")
    try:
        with pytest.raises(DataError, match=r"cannot write into .*: No space left on device"):
            toy(run, size=2000)
        assert not list(run.rglob(".unfinished-*"))
        before = newest(run)
        assert before
        with pytest.raises(DataError, match="No space left"):
            toy(run, size=2000)
        after = newest(run)
        assert after
        assert after.number >= before.number
        assert mount("-o", "remount,size=1m", str(disk)) == 0
        toy(run, size=2000)
        toy(tmp_path / "whole", size=2000)
        assert content(run) == content(tmp_path / "whole")
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def mount(*argv: str) -> int:
    return subprocess.run(["mount", *argv], capture_output=True, check=False).returncode


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """Everything in a folder cannot be written, by root either."""
    for place in (path, *path.rglob("*")):
        place.chmod(0o555)
    if os.geteuid() == 0:
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)
    else:
        yield
    for place in (path, *path.rglob("*")):
        place.chmod(0o755)


def test_a_folder_that_is_read_only(whole: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder, "run")
        with pytest.raises(Stop):
            toy(path, stop=5)
        with RunFolder.opened(path, EXPERIMENT, {}, no_warning) as run:
            found = run.resume()
            assert found
            with read_only(path):
                with pytest.raises(DataError, match="checkpoints: Permission denied"):
                    run.save(5, found.arrays, {"round": 4})
                with pytest.raises(DataError, match="Permission denied"):
                    run.finish(functools.partial(toy_summary, total_loss=0.0))
        with read_only(path), pytest.raises(DataError, match=r"cannot write into .*run: Permission denied"):
            toy(path)
        with read_only(path), pytest.raises(DataError, match="Permission denied"):
            toy(path / "new")
        toy(path)
        assert content(path) == whole


# Damage --------------------------------------------------------------------------------------------------------------

PARTS = [f"checkpoints/{n:010d}/{f}" for n in (4, 6) for f in ("state.safetensors", "info.json", "manifest.json")]
PARTS += [f"checkpoints/{n:010d}/events.jsonl" for n in (4, 6)]


@pytest.mark.parametrize("name", ["experiment.json", "environment.json", "events.jsonl", "lock", *PARTS])
def test_damage_is_healed_or_refused(name: str, halfway: Path, whole: dict[str, bytes], tmp_path: Path) -> None:
    good = (halfway / name).read_bytes()
    kept = len((halfway / PARTS[-1]).read_bytes())
    for number, data in enumerate(damages(good, 6)):
        path = tmp_path / str(number)
        shutil.copytree(halfway, path)
        put(path / name, data)
        warned: list[str] = []
        if name == "experiment.json":
            with pytest.raises((DataError, InputError), match=r"experiment.json"):
                toy(path, warned.append)
            with pytest.raises(DataError, match=r"experiment.json"):
                read_experiment(path)
            continue
        toy(path, warned.append)
        assert content(path) == whole, data
        if name.startswith("checkpoints/0000000006"):
            assert [str(path / "checkpoints/0000000006") in line for line in warned] == [True]
        elif name == "events.jsonl":
            used = data is None or data[:kept] != good[:kept]  # the rest is computed again
            assert [str(path / name) in line for line in warned] == [True] * used
        else:
            assert len(warned) == (name == "environment.json" and data is not None)


@pytest.mark.parametrize("name", ["experiment.json", "summary.json", "events.jsonl"])
def test_every_byte_of_a_finished_run_counts(name: str, tmp_path: Path) -> None:
    toy(tmp_path)
    good = (tmp_path / name).read_bytes()
    for data in damages(good, 500):
        put(tmp_path / name, data)
        if name == "summary.json" and data is None:
            assert read_summary(tmp_path) is None
        else:
            with pytest.raises(DataError, match=name):
                read_experiment(tmp_path) if name == "experiment.json" else read_summary(tmp_path)


@pytest.mark.parametrize("name", ["summary.json", "events.jsonl"])
def test_a_finished_run_heals(name: str, whole: dict[str, bytes], tmp_path: Path) -> None:
    toy(tmp_path)
    wrong = (5, None, [], {"events_sha256": sha256(whole["events.jsonl"])})
    for data in [*damages(whole[name], 5), *map(sealed, wrong)]:
        put(tmp_path / name, data)
        warned: list[str] = []
        toy(tmp_path, warned.append)
        assert content(tmp_path) == whole
        assert any(str(tmp_path / name) in line for line in warned) == (name == "events.jsonl" or data is not None)


@pytest.mark.parametrize("wrong", [5, None, "x", {"a": 1}, [], [5]])
def test_an_environment_that_no_run_writes_is_begun_anew(wrong: Any, whole: dict[str, bytes], tmp_path: Path) -> None:
    toy(tmp_path)
    (tmp_path / "environment.json").write_bytes(sealed(wrong))
    warned: list[str] = []
    toy(tmp_path, warned.append)
    assert len(warned) == 1
    assert [entry["pid"] for entry in unsealed((tmp_path / "environment.json").read_bytes())] == [os.getpid()]
    assert content(tmp_path) == whole


def test_a_finished_run_that_goes_back_is_not_finished(whole: dict[str, bytes], tmp_path: Path) -> None:
    toy(tmp_path)
    (tmp_path / "checkpoints/0000000009/info.json").unlink()
    warned: list[str] = []
    with RunFolder.opened(tmp_path, EXPERIMENT, {}, warned.append) as run:
        assert run.finished
        found = run.resume()
        assert found
        assert found.number == 8
        assert not run.finished
    assert len(warned) == 1
    toy(tmp_path)
    assert content(tmp_path) == whole


def test_no_good_checkpoint_is_not_the_beginning(halfway: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(halfway, path)
    for number in (4, 6):
        put(path / f"checkpoints/{number:010d}/manifest.json", b"")
    log, warned = (path / "events.jsonl").read_bytes(), list[str]()
    with pytest.raises(DataError, match="none of the 2 checkpoints"):
        toy(path, warned.append)
    assert len(warned) == 2
    assert (path / "events.jsonl").read_bytes() == log


# What is refused -----------------------------------------------------------------------------------------------------


def changed(**parts: Any) -> ExperimentRecord:
    return ExperimentRecord.model_validate({**EXPERIMENT.model_dump(), **parts})


OTHERS = [
    (changed(seed=4), "seed is 3 there and 4 here"),
    (changed(protocol={"test_size": 1, "rounds": 9.0}), "protocol.rounds is 9 there and 9.0 here"),
    (changed(protocol={"test_size": 1}), "protocol.rounds is 9 there only"),
    (changed(learner={"name": "toy", "type": {"name": "toy.Toy"}, "hyperparameters": {"rates": [0.1]}}), "rates"),
    (changed(tasks={"name": "toy", "fingerprint": "f01"}), "tasks.fingerprint"),
]


@pytest.mark.parametrize(("other", "words"), OTHERS)
def test_another_experiment_is_refused(other: ExperimentRecord, words: str, halfway: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(halfway, path)
    before = content(path), (path / "environment.json").read_bytes()
    with pytest.raises(InputError, match=words), RunFolder.opened(path, other, {}, no_warning):
        pass
    assert before == (content(path), (path / "environment.json").read_bytes())


def test_an_experiment_that_computed_nothing_leaves_its_folder_to_the_next(tmp_path: Path) -> None:
    other = changed(seed=4)
    with RunFolder.opened(tmp_path, other, {}, no_warning) as run:
        run.resume()
    toy(tmp_path, stop=None)
    assert read_experiment(tmp_path) == EXPERIMENT
    with pytest.raises(InputError, match="seed"), RunFolder.opened(tmp_path, other, {}, no_warning):
        pass


def test_a_hyperparameter_that_was_added_later_has_its_default_in_older_folders(halfway: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(halfway, path)
    learner = EXPERIMENT.learner.model_dump()
    for value in (7, 8):
        hyperparameters = {"rates": [0.1, 0.2], "new": value}
        record = changed(learner={**learner, "hyperparameters": hyperparameters})
        opening = RunFolder.opened(path, record, {}, no_warning, {"new": 7, "rates": [0.5]})
        if value == 7:
            with opening as run:
                found = run.resume()
                assert found
                assert found.number == 6
        else:
            with pytest.raises(InputError, match=r"hyperparameters.new is 7 there and 8 here"), opening:
                pass


def test_the_experiment_of_a_finished_folder_cannot_be_swapped(whole: dict[str, bytes], tmp_path: Path) -> None:
    toy(tmp_path / "run")
    other = changed(seed=4)
    with RunFolder.opened(tmp_path / "other", other, {}, no_warning):
        pass
    shutil.copy(tmp_path / "other/experiment.json", tmp_path / "run/experiment.json")
    with pytest.raises(DataError, match=r"summary.json .*another"):
        read_summary(tmp_path / "run")
    with (
        pytest.raises(DataError, match=r"summary.json .*another"),
        RunFolder.opened(tmp_path / "run", other, {}, no_warning),
    ):
        pass
    put(tmp_path / "run/experiment.json", whole["experiment.json"])
    assert content(tmp_path / "run") == whole


def test_a_checkpoint_of_another_experiment_is_refused_and_the_log_kept(halfway: Path, tmp_path: Path) -> None:
    path, other = tmp_path / "run", changed(seed=4)
    with RunFolder.opened(path, other, {}, no_warning) as run:
        run.resume()
        run.append([toy_event(0)])
    shutil.copytree(halfway / "checkpoints", path / "checkpoints")  # the same shapes
    log = (path / "events.jsonl").read_bytes()
    with (
        pytest.raises(DataError, match="another experiment"),
        RunFolder.opened(path, other, {}, lambda sentence: None) as run,
    ):
        run.resume()
    assert (path / "events.jsonl").read_bytes() == log


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(InputError, match=r"thesis.tex"):
        toy(tmp_path)
    with pytest.raises(InputError, match=r"thesis.tex is a file"):
        toy(tmp_path / "thesis.tex")
    with pytest.raises(DataError, match=r"cannot write into .*: Not a directory"):
        toy(tmp_path / "thesis.tex" / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_events_that_no_run_has_are_refused(tmp_path: Path) -> None:
    with RunFolder.opened(tmp_path, EXPERIMENT, {}, no_warning) as run:
        assert read_events(tmp_path) == []
        with pytest.raises(AssertionError, match="call it first"):
            run.append([toy_event(0)])
        run.resume()
        for bad in (float("nan"), float("inf")):
            with pytest.raises(ValidationError):
                run.append([toy_event(0), toy_event(1, loss=bad)])
        run.append([])
        assert (tmp_path / "events.jsonl").read_bytes() == b""
        run.append([toy_event(0)])
        assert read_events(tmp_path) == [toy_event(0)]
        assert (tmp_path / "events.jsonl").read_bytes().isascii()


def test_a_log_that_somebody_else_writes_is_noticed(whole: dict[str, bytes], tmp_path: Path) -> None:
    with RunFolder.opened(tmp_path, EXPERIMENT, {}, no_warning) as run:
        run.resume()
        run.append([toy_event(0)])
        for spoil in (b'{"a":2}\n', b""):
            (tmp_path / "events.jsonl").write_bytes(spoil)
            for call in (lambda: run.save(1, {}, {}), lambda: run.finish(toy_summary)):
                with pytest.raises(DataError, match=r"events.jsonl is not what this run has written"):
                    call()
    toy(tmp_path)
    assert content(tmp_path) == whole
