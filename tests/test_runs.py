"""Run folders: processes are killed, crash at every call, disks are full, bytes flip; the end is always the same bytes.

Run as a script it is the killer and the killed of these tests, without JAX: see `main`.
"""

from __future__ import annotations

import errno
import io
import itertools
import json
import os
import pickle
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyshot.errors import DataError, InputError
from anyshot.runs import checkpoints
from anyshot.runs.checkpoints import DTYPES, Checkpoint
from anyshot.runs.files import sealed, unsealed
from anyshot.runs.folder import RunFolder, read_events, read_experiment, read_summary

EXPERIMENT = {"seed": 3, "method": {"name": "toy", "rates": [0.1, 0.2]}, "rounds": 9}
PROMISED = ("experiment.json", "events.jsonl", "checkpoints", "summary.json")


class Stop(Exception):
    """The toy run was told to stop here."""


def no_warning(message: str) -> NoReturn:
    raise AssertionError(f"nothing is damaged, but: {message}")


def toy(path: Path, warn: Callable[[str], None] = no_warning, stop: int | None = None, size: int = 6) -> None:
    """A run of 9 rounds, with a checkpoint every second round and at the end; what it computes is chaotic."""
    with RunFolder.opened(path, EXPERIMENT, {"pid": os.getpid()}, warn) as run:
        if run.finished:
            return
        found = run.resume()
        arrays = found.arrays if found else {"w": np.linspace(0.1, 0.9, size, dtype=np.float32), "n": np.zeros((), int)}
        first = found.info["round"] + 1 if found else 0
        assert first == (found.number if found else 0)
        for number in range(first, 9):
            if number == stop:
                raise Stop
            w = (np.float32(3.9) * arrays["w"] * (1 - arrays["w"])).astype(np.float32)
            arrays = {"w": w, "n": arrays["n"] + 1, "half": w.astype(ml_dtypes.bfloat16)}
            run.append([{"round": number, "at": i, "w": float(x)} for i, x in enumerate(w[:2])])
            if number % 2 == 1 or number == 8:
                run.save(number + 1, arrays, {"round": number})
        run.finish({"total": float(arrays["w"].sum()), "rounds": int(arrays["n"])})


def content(path: Path) -> dict[str, bytes]:
    """All that must be equal: everything in a run folder but who wrote it; nothing unfinished may be left."""
    files = {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}
    assert not list(path.rglob(".unfinished-*"))
    return {name: data for name, data in files.items() if name.startswith(PROMISED)}


def newest(path: Path) -> Checkpoint | None:
    return checkpoints.load(path / "checkpoints", no_warning)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What a run that was never interrupted leaves."""
    path = tmp_path_factory.mktemp("whole") / "run"
    toy(path)
    return content(path)


@pytest.fixture(autouse=True, scope="module")
def without_waiting_for_the_disk() -> Iterator[None]:
    """Processes die here, not machines: what the system has, it keeps. Those that are killed do wait."""
    with patch.object(os, "fsync", lambda handle: None):
        yield


def test_a_run_leaves_what_it_says(whole: dict[str, bytes], tmp_path: Path) -> None:
    toy(tmp_path / "a/b")
    toy(tmp_path / "a/b")
    assert content(tmp_path / "a/b") == whole
    parts = [f"checkpoints/{n:010d}/{name}" for n in (8, 9) for name in sorted(("events.jsonl", "info.json"))]
    parts += [f"checkpoints/{n:010d}/{name}" for n in (8, 9) for name in ("manifest.json", "state.safetensors")]
    assert sorted(whole) == sorted([*parts, "events.jsonl", "experiment.json", "summary.json"])
    assert read_experiment(tmp_path / "a/b") == EXPERIMENT
    events = read_events(tmp_path / "a/b")
    assert [event["round"] for event in events] == sorted([*range(9)] * 2)
    assert whole["events.jsonl"].splitlines()[1] == json.dumps(events[1], separators=(",", ":")).encode()
    assert (read_summary(tmp_path / "a/b") or {})["rounds"] == 9
    assert len(unsealed((tmp_path / "a/b/environment.json").read_bytes())) == 2


# Killed --------------------------------------------------------------------------------------------------------------


def main(what: str, folder: str, *numbers: str) -> None:
    """`hold`: write a run and keep it open. `kill`: fork runs and kill them, so many times; prints what was hit."""
    if what == "hold":
        with RunFolder.opened(Path(folder), EXPERIMENT, {}, no_warning) as run:
            run.resume()
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            time.sleep(60)
    seed, kills = map(int, numbers)
    draws, hit = random.Random(seed), {"kills": 0, "saving": 0, "runs": 0}  # noqa: S311
    toy(Path(folder, "whole"))
    began = time.monotonic()
    wait(fork(Path(folder, "slow")))
    life = time.monotonic() - began
    while hit["kills"] < kills:
        path = Path(folder, str(hit["runs"]))
        while True:
            pid = fork(path)
            time.sleep(draws.uniform(0, life) * draws.choice([0.2, 0.6, 1.0]))
            os.kill(pid, signal.SIGKILL)
            if not wait(pid):
                break
            hit["kills"] += 1
            hit["saving"] += any((path / "checkpoints").glob(".unfinished-*/state.safetensors"))
            newest(path)  # it is good, or there is none
        assert content(path) == content(Path(folder, "whole")), path
        hit["runs"] += 1
    sys.stdout.write(json.dumps(hit))


def fork(path: Path) -> int:
    """A toy run in a process of its own, whose writes take their time."""
    pid = os.fork()
    if pid:
        return pid
    fsync, write = os.fsync, os.write

    def slow_fsync(handle: int) -> None:
        time.sleep(0.001)
        fsync(handle)

    def slow_write(handle: int, data: memoryview) -> int:
        time.sleep(0.001)
        return write(handle, data[: len(data) // 2 + 1])

    os.fsync, os.write = slow_fsync, slow_write  # type: ignore[assignment]
    try:
        toy(path)
        os._exit(0)
    finally:
        os._exit(1)


def wait(pid: int) -> bool:
    """Whether a process was killed; if not, it must have ended well."""
    status = os.waitpid(pid, 0)[1]
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert killed or os.waitstatus_to_exitcode(status) == 0
    return killed


def script(*argv: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, __file__, *argv], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_killed_at_any_moment_it_ends_the_same(kills: int, tmp_path: Path) -> None:
    process = script("kill", str(tmp_path), "1", str(kills))
    out = process.communicate(timeout=300)[0]
    assert process.returncode == 0
    hit = json.loads(out)
    assert hit["kills"] >= kills
    assert hit["saving"] >= kills // 10  # a large part of the run is spent there


def test_the_lock_names_its_holder_and_dies_with_it(whole: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("process 123456789 on " + 50 * "another.host")  # of a process that has ended
    with script("hold", str(tmp_path)) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(DataError) as error:
            toy(tmp_path)
        host = socket.gethostname()
        assert str(error.value) == (
            f"{tmp_path} is being written by process {process.pid} on {host}; wait for it or stop it"
        )
        process.kill()
        process.wait()
    toy(tmp_path)
    assert content(tmp_path) == whole


def test_one_process_is_not_two_writers(tmp_path: Path) -> None:
    with RunFolder.opened(tmp_path, EXPERIMENT, {}, no_warning):
        with pytest.raises(DataError, match=f"being written by process {os.getpid()} on"):
            toy(tmp_path)
        (tmp_path / "lock").write_bytes(b"\xff")
        with pytest.raises(DataError, match="being written by another process;"):
            toy(tmp_path)
    toy(tmp_path)


def test_a_file_system_without_locks_is_named(tmp_path: Path) -> None:
    error = OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    with (
        patch("fcntl.flock", side_effect=error),
        pytest.raises(DataError, match=r"cannot lock .* such as a local disk"),
    ):
        toy(tmp_path)
    with patch.dict(sys.modules, {"fcntl": None}), pytest.raises(DataError, match="this system has no flock"):
        toy(tmp_path)


# Faults at every call ------------------------------------------------------------------------------------------------


class Crash(BaseException):
    """The process ends here."""


CHANGES = ("open", "write", "fsync", "ftruncate", "replace", "mkdir", "unlink", "rmdir")


@contextmanager
def fault(number: int, error: BaseException) -> Iterator[list[str]]:
    """The system's calls that change something fail from number `number` on, a write after half of it.

    A crash stops everything; on a full or read-only disk one can still look, and remove on the former.
    """
    calls: list[str] = []
    fails = {Crash: CHANGES, OSError: CHANGES[:6]}[type(error)]

    def failing(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            looks = name == "open" and not args[1] & os.O_CREAT
            if name not in fails or (looks and isinstance(error, OSError)):
                return real(*args, **more)
            calls.append(name)
            if len(calls) < number:
                return None if name == "fsync" else real(*args, **more)
            if len(calls) == number and name == "write":
                real(args[0], args[1][: len(args[1]) // 2])
            raise error

        return call

    def reading(path: Path, mode: str = "r", *args: Any, **more: Any) -> Any:
        assert not set(mode) & set("wax+"), f"{path} is written where no fault can hit"
        return builtin(path, mode, *args, **more)

    builtin = io.open
    calls_of_os = {name: failing(name, getattr(os, name)) for name in CHANGES}
    with patch.multiple(os, **calls_of_os), patch.object(io, "open", reading):
        yield calls


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
        assert f"{os.strerror(number)}; make room there or make it writable" in said
        assert not list(path.rglob(".unfinished-*"))
        found = newest(path)  # without a warning: what was there before is good
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
        with pytest.raises(DataError, match=r"cannot write into .*: No space left on device; make room there"):
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
                with pytest.raises(DataError, match="checkpoints: Permission denied; make room there or make it wri"):
                    run.save(5, found.arrays, {"round": 4})
                with pytest.raises(DataError, match="Permission denied"):
                    run.finish({})
        with read_only(path), pytest.raises(DataError, match=r"cannot write into .*run: Permission denied"):
            toy(path)
        with read_only(path), pytest.raises(DataError, match="Permission denied"):
            toy(path / "new")
        toy(path)
        assert content(path) == whole


# Damage --------------------------------------------------------------------------------------------------------------


def flips(data: bytes, count: int) -> Iterator[bytes]:
    """One bit flipped, in every byte or in `count` of them evenly spread."""
    places = range(len(data)) if count >= len(data) else np.linspace(0, len(data) - 1, count).astype(int)
    for place in places:
        yield data[:place] + bytes([data[place] ^ 1 << (place % 8)]) + data[place + 1 :]


def damages(data: bytes, count: int) -> Iterator[bytes | None]:
    """Deleted, truncated, one bit flipped, a byte too many."""
    yield None
    for length in sorted({0, 1, len(data) // 2, len(data) - 1} - {len(data)}):
        yield data[:length]
    yield data + b"\n"
    yield from flips(data, count)


def put(path: Path, data: bytes | None) -> None:
    if data is None:
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(data)


@pytest.fixture(scope="module")
def halfway(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped in round 7, after checkpoints 4 and 6."""
    path = tmp_path_factory.mktemp("halfway") / "run"
    with pytest.raises(Stop):
        toy(path, stop=7)
    return path


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


@pytest.mark.parametrize("name", [part for part in PARTS if "0000000006" in part])
def test_every_byte_of_a_checkpoint_counts(name: str, halfway: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(halfway, path)
    good = (path / name).read_bytes()
    for data in damages(good, 10_000):
        put(path / name, data)
        warned: list[str] = []
        found = checkpoints.load(path / "checkpoints", warned.append)
        assert found
        assert found.number == 4
        assert len(warned) == 1
    put(path / name, good)
    found = newest(path)
    assert found
    assert found.number == 6


@pytest.mark.parametrize("name", ["experiment.json", "summary.json", "events.jsonl"])
def test_every_byte_of_a_finished_run_counts(name: str, tmp_path: Path) -> None:
    toy(tmp_path)
    good = (tmp_path / name).read_bytes()
    for data in damages(good, 10_000):
        put(tmp_path / name, data)
        if name == "summary.json" and data is None:
            assert read_summary(tmp_path) is None
        else:
            with pytest.raises(DataError, match=name):
                {"experiment.json": read_experiment, "summary.json": read_summary}.get(name, read_events)(tmp_path)


@pytest.mark.parametrize("name", ["summary.json", "events.jsonl"])
def test_a_finished_run_heals(name: str, whole: dict[str, bytes], tmp_path: Path) -> None:
    toy(tmp_path)
    for data in damages(whole[name], 5):
        put(tmp_path / name, data)
        warned: list[str] = []
        toy(tmp_path, warned.append)
        assert content(tmp_path) == whole
        assert any(str(tmp_path / name) in line for line in warned) == (name == "events.jsonl" or data is not None)


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
    with pytest.raises(DataError, match=r"none of the 2 checkpoints in .*delete it to start the run from"):
        toy(path, warned.append)
    assert len(warned) == 2
    assert (path / "events.jsonl").read_bytes() == log


def test_damaged_checkpoints_do_not_count_as_generations(tmp_path: Path) -> None:
    for number in (1, 2):
        checkpoints.save(tmp_path, Checkpoint(number, {}, {}, b""))
    for number in (8, 9):
        (tmp_path / f"{number:010d}").mkdir()
    warned: list[str] = []
    found = checkpoints.load(tmp_path, warned.append)
    assert found
    assert found.number == 2
    assert len(warned) == 2
    checkpoints.save(tmp_path, Checkpoint(3, {}, {}, b""))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0000000002", "0000000003"]
    checkpoints.save(tmp_path, Checkpoint(3, {}, {"again": True}, b""), keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["0000000003"]
    again = checkpoints.load(tmp_path, no_warning)
    assert again
    assert again.info == {"again": True}


class Trap:
    """What a pickle can do to whoever loads it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("executed"),)


@pytest.mark.parametrize("forged", [False, True])
def test_a_pickle_is_not_executed(forged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        checkpoints.save(tmp_path / "c", Checkpoint(number, {"w": np.ones(2)}, {}, b""))
    trap, place = pickle.dumps(Trap()), tmp_path / "c/0000000002"
    (place / "state.safetensors").write_bytes(trap)
    if forged:  # all the hashes are right
        manifest = unsealed((place / "manifest.json").read_bytes())
        manifest["files"]["state.safetensors"] = {"bytes": len(trap), "sha256": checkpoints.sha256(trap)}
        (place / "manifest.json").write_bytes(sealed(manifest))
    warned: list[str] = []
    found = checkpoints.load(tmp_path / "c", warned.append)
    assert found
    assert found.number == 1
    assert "SafetensorError" in warned[0] if forged else "state.safetensors has" in warned[0]
    assert not Path("executed").exists()
    pickle.loads(trap)  # noqa: S301
    assert Path("executed").exists()


# What goes in comes out ----------------------------------------------------------------------------------------------


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    """Any bits, in any order in memory."""
    name = draw(st.sampled_from(DTYPES))
    dtype = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), np.uint8)
    array = (raw & 1 if name == "bool" else raw).view(dtype).reshape(shape)
    order = draw(st.sampled_from(["as it is", "transposed", "reversed"]))
    return {"as it is": array, "transposed": array.T, "reversed": array[::-1] if shape else array}[order]


@given(
    state=st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1) | st.just("__metadata__"), arrays()),
    events=st.binary(),
)
def test_arrays_come_back_bit_by_bit(state: dict[str, np.ndarray], events: bytes) -> None:
    info = {"list": [1, None, 0.1], "a": {"b": "\ud800"}}
    with tempfile.TemporaryDirectory() as folder:
        checkpoints.save(Path(folder), Checkpoint(2**40, state, info, events))
        found = checkpoints.load(Path(folder), no_warning)
    assert found
    assert (found.number, found.info, found.events, set(found.arrays)) == (2**40, info, events, set(state))
    for name, array in state.items():
        assert found.arrays[name].dtype == array.dtype
        assert found.arrays[name].shape == array.shape
        assert found.arrays[name].tobytes() == array.tobytes()


def test_a_nan_keeps_its_payload_and_bfloat16_needs_no_jax(tmp_path: Path) -> None:
    bits = np.array([0x7FC01234, 0xFF800001], np.uint32)
    state = {"nan": bits.view(np.float32), "half": np.ones(3, ml_dtypes.bfloat16)}
    checkpoints.save(tmp_path, Checkpoint(0, state, {}, b""))
    code = (
        "import sys, pathlib; from anyshot.runs import checkpoints as c, folder;"
        "a = c.load(pathlib.Path(sys.argv[1]), print).arrays;"
        "print(a['nan'].view('uint32').tolist(), a['half'].dtype, 'jax' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert said.stdout == f"{bits.tolist()} bfloat16 False\n"


@pytest.mark.parametrize(
    ("checkpoint", "keep", "message"),
    [
        (Checkpoint(-1, {}, {}, b""), 2, "must not be negative, got -1"),
        (Checkpoint(1, {}, {}, b""), 0, "keep must be at least 1, got 0"),
        (Checkpoint(1, {"": np.ones(1)}, {}, b""), 2, "name must be non-empty text, got ''"),
        (Checkpoint(1, {"\ud800": np.ones(1)}, {}, b""), 2, "name must be non-empty text"),
        (Checkpoint(1, {"a": np.array([None])}, {}, b""), 2, "array 'a' has dtype object, which must be one of bool"),
    ],
)
def test_what_cannot_be_saved(checkpoint: Checkpoint, keep: int, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        checkpoints.save(tmp_path, checkpoint, keep)
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_is_on_the_disk_before_it_has_its_name(tmp_path: Path) -> None:
    log: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def logged_fsync(handle: int) -> None:
        log.append(("fsync", Path(f"/proc/self/fd/{handle}").readlink().name))
        fsync(handle)

    def logged_replace(source: Path, target: Path) -> None:
        log.append(("replace", Path(target).name))
        replace(source, target)

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("needs /proc to tell which file is flushed")
    with patch.multiple(os, fsync=logged_fsync, replace=logged_replace):
        checkpoints.save(tmp_path, Checkpoint(1, {}, {}, b""))
    *files, folder, renamed, parent = log
    assert files == [("fsync", f) for f in ("state.safetensors", "events.jsonl", "info.json", "manifest.json")]
    assert folder[1].startswith(".unfinished-")
    assert [renamed, parent] == [("replace", "0000000001"), ("fsync", tmp_path.name)]


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 4}, "seed is 3 there and 4 here"),
        ({"seed": 3.0}, "seed is 3 there and 3.0 here"),
        ({"method": {"name": "toy", "rates": (0.1, 0.3)}}, r"method.rates is \[0.1, 0.2\] there and \[0.1, 0.3\] here"),
        ({"method": {"rates": [0.1, 0.2]}}, 'method.name is "toy" there only'),
        ({"method": None}, "method is .* there and null here"),
        ({"more": {}}, "more is {} here only"),
    ],
)
def test_another_experiment_is_refused(change: dict[str, Any], message: str, halfway: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(halfway, path)
    before = content(path), (path / "environment.json").read_bytes()
    opening = RunFolder.opened(path, {**EXPERIMENT, **change}, {}, no_warning)
    with pytest.raises(InputError, match=f"holds another experiment: {message}; choose another folder"), opening:
        pass
    assert before == (content(path), (path / "environment.json").read_bytes())


def test_the_same_experiment_in_other_words(halfway: Path, whole: dict[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(halfway, path)
    same = {"rounds": 9, "method": {"rates": (0.1, 0.2), "name": "toy"}, "seed": 3}
    with RunFolder.opened(path, same, {}, no_warning) as run:
        assert not run.finished
    toy(path)
    assert content(path) == whole


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(InputError, match=r"is no run folder and not empty \(it holds thesis.tex, but no experiment"):
        toy(tmp_path)
    with pytest.raises(InputError, match=r"thesis.tex is a file; a run needs a folder"):
        toy(tmp_path / "thesis.tex")
    with pytest.raises(DataError, match=r"cannot write into .*: Not a directory"):
        toy(tmp_path / "thesis.tex" / "run")
    for read in (read_experiment, read_events):
        with pytest.raises(DataError, match=r"is no run folder: it has no experiment.json"):
            read(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_events_that_are_no_json_are_refused_whole(tmp_path: Path) -> None:
    with RunFolder.opened(tmp_path, EXPERIMENT, {}, no_warning) as run:
        assert read_events(tmp_path) == []
        with pytest.raises(AssertionError, match="call it first"):
            run.append([{"a": 1}])
        run.resume()
        for bad in (float("nan"), float("inf")):
            with pytest.raises(ValueError, match="not JSON compliant"):
                run.append([{"a": 1}, {"a": bad}])
        run.append([{"z": 0.1, "a": "ä"}])
        run.append([])
        assert (tmp_path / "events.jsonl").read_bytes() == b'{"z":0.1,"a":"\\u00e4"}\n'
    with (
        pytest.raises(ValueError, match="not JSON compliant"),
        RunFolder.opened(tmp_path / "new", {"rate": float("nan")}, {}, no_warning),
    ):
        pass
    assert not (tmp_path / "new").exists()


def test_a_log_that_somebody_else_writes_is_noticed(whole: dict[str, bytes], tmp_path: Path) -> None:
    with RunFolder.opened(tmp_path, EXPERIMENT, {}, no_warning) as run:
        run.resume()
        run.append([{"a": 1}])
        for spoil in (b'{"a":2}\n', b""):
            (tmp_path / "events.jsonl").write_bytes(spoil)
            for call in (lambda: run.save(1, {}, {}), lambda: run.finish({})):
                with pytest.raises(DataError, match="is not what this run has written to it"):
                    call()
    toy(tmp_path)
    assert content(tmp_path) == whole


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (b'{"a":1}\n{"a":2}', 1),  # half-written, though it could be read
        (b'{"a":1}\n{"a":', 1),
        (b'{"a":1}\n{"a:\xff}\n', 1),
        (b'{"a":1}\n[]\n{"a":2}\n', "damaged in line 2;"),
        (b'{"a:\n{"a":2}', "damaged in line 1;"),
    ],
)
def test_the_log_of_a_run_that_lives(log: bytes, found: int | str, tmp_path: Path) -> None:
    with pytest.raises(Stop):
        toy(tmp_path, stop=0)
    (tmp_path / "events.jsonl").write_bytes(log)
    if isinstance(found, int):
        assert len(read_events(tmp_path)) == found
    else:
        with pytest.raises(DataError, match=f"events.jsonl is {found}"):
            read_events(tmp_path)


if __name__ == "__main__":
    main(*sys.argv[1:])
