"""Checkpoints: what goes in comes out bit by bit, and what is not as it was written is never used."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshot.errors import DataError, InputError
from anyshot.runs import checkpoints
from anyshot.runs.checkpoints import DTYPES, Checkpoint
from anyshot.runs.files import sealed, sha256, unsealed
from tests.support.faults import damages, put
from tests.support.refusals import as_a_user_runs_it
from tests.support.toy_runs import no_warning

SHA = "0" * 64
FILES = ("state.safetensors", "info.json", "events.jsonl", "manifest.json")


@pytest.fixture(autouse=True, scope="module")
def without_waiting_for_the_disk() -> Iterator[None]:
    with patch.object(os, "fsync", lambda handle: None):
        yield


def save(folder: Path, number: int, **parts: Any) -> None:
    whole = {"arrays": {"w": np.linspace(0, 1, 7)}, "info": {"round": number}, "events": b'{"a":1}\n', **parts}
    checkpoints.save(folder, Checkpoint(number, **whole), SHA)


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
        checkpoints.save(Path(folder), Checkpoint(2**40, state, info, events), SHA)
        found = checkpoints.load(Path(folder), SHA, no_warning)
    assert found
    assert (found.number, found.info, found.events, set(found.arrays)) == (2**40, info, events, set(state))
    for name, array in state.items():
        assert found.arrays[name].dtype == array.dtype
        assert found.arrays[name].shape == array.shape
        assert found.arrays[name].tobytes() == array.tobytes()


def test_a_nan_keeps_its_payload_and_bfloat16_needs_no_jax(tmp_path: Path) -> None:
    bits = np.array([0x7FC01234, 0xFF800001], np.uint32)
    save(tmp_path, 0, arrays={"nan": bits.view(np.float32), "half": np.ones(3, ml_dtypes.bfloat16)})
    code = (
        "import sys, pathlib; from anyshot.runs import checkpoints as c, folder;"
        "a = c.load(pathlib.Path(sys.argv[1]), '0' * 64, print).arrays;"
        "print(a['nan'].view('uint32').tolist(), a['half'].dtype, 'jax' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert said.stdout == f"{bits.tolist()} bfloat16 False\n"


@pytest.mark.parametrize("name", FILES)
def test_every_byte_of_a_checkpoint_counts(name: str, tmp_path: Path) -> None:
    for number in (4, 6):
        save(tmp_path, number)
    file = tmp_path / "0000000006" / name
    good = file.read_bytes()
    for data in damages(good, 10_000):
        put(file, data)
        warned: list[str] = []
        found = checkpoints.load(tmp_path, SHA, warned.append)
        assert found
        assert found.number == 4
        assert ["0000000006" in sentence for sentence in warned] == [True]
    put(file, good)
    found = checkpoints.load(tmp_path, SHA, no_warning)
    assert found
    assert found.number == 6


def forge(place: Path, name: str, data: bytes) -> None:
    """Another content for a file of a checkpoint, with all the hashes right."""
    (place / name).write_bytes(data)
    manifest = unsealed((place / "manifest.json").read_bytes())
    manifest["files"][name] = {"bytes": len(data), "sha256": sha256(data)}
    (place / "manifest.json").write_bytes(sealed(manifest))


@pytest.mark.parametrize("data", [b"[]", b"5", b"null", b"[" * 10_000 + b"]" * 10_000, b"{", b"\xff"])
def test_an_info_that_no_run_writes_is_passed_over(data: bytes, tmp_path: Path) -> None:
    for number in (1, 2):
        save(tmp_path, number)
    forge(tmp_path / "0000000002", "info.json", data)
    warned: list[str] = []
    with as_a_user_runs_it():
        found = checkpoints.load(tmp_path, SHA, warned.append)
    assert found
    assert found.number == 1
    assert "info.json" in warned[0]


@pytest.mark.parametrize("manifest", [[], 5, None, {}, {"format": 1, "number": 2}, {"format": 9, "number": 2}])
def test_a_manifest_that_no_run_writes_is_passed_over(manifest: Any, tmp_path: Path) -> None:
    for number in (1, 2):
        save(tmp_path, number)
    (tmp_path / "0000000002/manifest.json").write_bytes(sealed(manifest))
    warned: list[str] = []
    found = checkpoints.load(tmp_path, SHA, warned.append)
    assert found
    assert found.number == 1
    assert len(warned) == 1


def test_a_checkpoint_of_another_experiment_is_not_used(tmp_path: Path) -> None:
    save(tmp_path, 1)
    with pytest.raises(DataError, match="another experiment"):
        checkpoints.load(tmp_path, "1" * 64, lambda sentence: None)


def test_a_checkpoint_can_be_asked_for_by_its_number(tmp_path: Path) -> None:
    for number in (3, 7):
        save(tmp_path, number)
    found = checkpoints.load(tmp_path, SHA, no_warning, 3)
    assert found
    assert found.info == {"round": 3}
    with pytest.raises(InputError, match=r"4.*7, 3"):
        checkpoints.load(tmp_path, SHA, no_warning, 4)
    (tmp_path / "0000000003/info.json").unlink()
    with pytest.raises(DataError, match="checkpoint 3"):
        checkpoints.load(tmp_path, SHA, lambda sentence: None, 3)


def test_damaged_checkpoints_do_not_count_as_generations(tmp_path: Path) -> None:
    for number in (1, 2):
        save(tmp_path, number)
    for number in (8, 9):
        (tmp_path / f"{number:010d}").mkdir()
    warned: list[str] = []
    found = checkpoints.load(tmp_path, SHA, warned.append)
    assert found
    assert found.number == 2
    assert len(warned) == 2
    save(tmp_path, 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0000000002", "0000000003"]
    checkpoints.save(tmp_path, Checkpoint(3, {}, {"again": True}, b""), SHA, keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["0000000003"]
    again = checkpoints.load(tmp_path, SHA, no_warning)
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
        save(tmp_path / "c", number)
    trap, place = pickle.dumps(Trap()), tmp_path / "c/0000000002"
    (place / "state.safetensors").write_bytes(trap)
    if forged:
        forge(place, "state.safetensors", trap)
    warned: list[str] = []
    found = checkpoints.load(tmp_path / "c", SHA, warned.append)
    assert found
    assert found.number == 1
    assert "SafetensorError" in warned[0] if forged else "state.safetensors has" in warned[0]
    assert not Path("executed").exists()
    pickle.loads(trap)  # noqa: S301
    assert Path("executed").exists()


@pytest.mark.parametrize(
    ("checkpoint", "keep", "words"),
    [
        (Checkpoint(-1, {}, {}, b""), 2, "-1"),
        (Checkpoint(1, {}, {}, b""), 0, "keep must be at least 1, got 0"),
        (Checkpoint(1, {"": np.ones(1)}, {}, b""), 2, "name must be .* got ''"),
        (Checkpoint(1, {"\ud800": np.ones(1)}, {}, b""), 2, "name must be"),
        (Checkpoint(1, {"a": np.array([None])}, {}, b""), 2, "'a' has dtype object"),
    ],
)
def test_what_cannot_be_saved(checkpoint: Checkpoint, keep: int, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        checkpoints.save(tmp_path, checkpoint, SHA, keep)
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_is_on_the_disk_before_it_has_its_name(tmp_path: Path) -> None:
    log: list[tuple[str, str]] = []
    replace = os.replace

    def logged_fsync(handle: int) -> None:
        log.append(("fsync", Path(f"/proc/self/fd/{handle}").readlink().name))

    def logged_replace(source: Path, target: Path) -> None:
        log.append(("replace", Path(target).name))
        replace(source, target)

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("needs /proc to tell which file is flushed")
    with patch.multiple(os, fsync=logged_fsync, replace=logged_replace):
        save(tmp_path, 1)
    *files, folder, renamed, parent = log
    assert files == [("fsync", f) for f in ("state.safetensors", "events.jsonl", "info.json", "manifest.json")]
    assert folder[1].startswith(".unfinished-")
    assert [renamed, parent] == [("replace", "0000000001"), ("fsync", tmp_path.name)]
