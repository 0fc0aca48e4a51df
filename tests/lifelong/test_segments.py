"""Rows come back as they were written, whatever file they are in, and a row that is not as it was written is found."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyshot.errors import DataError
from anyshot.lifelong import segments
from anyshot.lifelong.segments import Segments
from tests.support.faults import fault, flips


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first file has 100 bytes, all from the fifth on have 1000."""
    monkeypatch.setattr(segments, "SMALLEST", 100)
    monkeypatch.setattr(segments, "LARGEST", 1000)


def make(folder: Path, x: np.ndarray) -> Segments:
    made = Segments(folder / "segments", x.dtype, x.shape[1:])
    made.write(0, x)
    return made


def random_rows(count: int, shape: tuple[int, ...] = (7,), dtype: str = "uint8") -> np.ndarray:
    drawn = np.random.default_rng(count).integers(0, 256, (count, *shape))
    return drawn.astype(dtype)


@pytest.mark.medium
@settings(max_examples=25)
@given(
    shape=st.sampled_from([(), (1,), (3, 2), (40,), (600,)]),
    dtype=st.sampled_from(["uint8", "float32"]),
    batches=st.lists(st.integers(1, 60), min_size=1, max_size=4),
    draws=st.randoms(use_true_random=False),
)
def test_rows_come_back_from_many_files(
    shape: tuple[int, ...], dtype: str, batches: list[int], draws: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "SMALLEST", 100)
        patch.setattr(segments, "LARGEST", 1000)
        x = random_rows(sum(batches), shape, dtype)
        folder = tmp_path_factory.mktemp("rows") / "segments"
        written, first = Segments(folder, x.dtype, shape), 0
        for count in batches:
            written.write(first, x[first : first + count])
            rows = np.array([draws.randrange(first + count) for _ in range(30)])  # type: ignore[attr-defined]
            found, good = written.read(rows)  # while the last file is still being filled
            assert good.all()
            np.testing.assert_array_equal(found, x[rows])
            first += count
        again, good = Segments(folder, x.dtype, shape).read(np.arange(first))
        assert good.all()
        assert (again.dtype, again.shape) == (x.dtype, x.shape)
        np.testing.assert_array_equal(again, x)
        assert len(list(folder.iterdir())) > 1 or len(x) == 1 or x.nbytes + 4 * len(x) <= 100


def test_any_flipped_bit_is_found_in_its_row_and_no_other(tmp_path: Path, small_files: None) -> None:
    make(tmp_path, random_rows(9))
    path = tmp_path / "segments" / "000000.bin"
    whole = path.read_bytes()
    assert len(whole) == 9 * 11
    for place, damaged in enumerate(flips(whole, len(whole))):
        path.write_bytes(damaged)
        _, good = Segments(path.parent, np.dtype("uint8"), (7,)).read(np.arange(9))
        assert np.flatnonzero(~good).tolist() == [place // 11]


def test_a_row_at_the_place_of_another_is_found(tmp_path: Path) -> None:
    make(tmp_path, random_rows(9))
    path = tmp_path / "segments" / "000000.bin"
    whole = path.read_bytes()
    path.write_bytes(whole[11:22] + whole[:11] + whole[22:])
    _, good = Segments(path.parent, np.dtype("uint8"), (7,)).read(np.arange(9))
    assert good.tolist() == [False, False] + 7 * [True]


def test_only_the_rows_asked_for_are_read(tmp_path: Path, small_files: None) -> None:
    x = random_rows(200)
    make(tmp_path, x)
    files = sorted((tmp_path / "segments").iterdir())
    assert len(files) > 4
    stride, kept = 11, files[2]
    for path in files:
        if path != kept:
            path.unlink()
    first = 100 // stride + 200 // stride  # the first row of the third file
    data = np.frombuffer(kept.read_bytes(), np.uint8).copy().reshape(-1, stride)
    data[::2] = 255
    kept.write_bytes(data.tobytes())
    rows = np.arange(first + 1, first + len(data), 2)
    found, good = Segments(tmp_path / "segments", np.dtype("uint8"), (7,)).read(rows)
    assert good.all()
    np.testing.assert_array_equal(found, x[rows])


def test_a_file_that_is_gone_or_cut_is_named(tmp_path: Path) -> None:
    make(tmp_path, random_rows(9))
    path = tmp_path / "segments" / "000000.bin"
    for data in (path.read_bytes()[:-1], b"", None):
        path.unlink()
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(DataError, match=str(path)):
            Segments(path.parent, np.dtype("uint8"), (7,)).read(np.arange(2))


def test_what_is_erased_is_zero_and_nothing_else_is(tmp_path: Path, small_files: None) -> None:
    x = random_rows(100)
    made = make(tmp_path, x)
    made.erase(5, 30)  # ends in the third file
    made.erase_from(80)
    found, good = made.read(np.arange(80))
    gone = (np.arange(80) >= 5) & (np.arange(80) < 35)
    np.testing.assert_array_equal(good, ~gone)
    np.testing.assert_array_equal(found, np.where(gone[:, None], 0, x[:80]))
    data = b"".join(path.read_bytes() for path in (tmp_path / "segments").iterdir())
    assert not any(row.tobytes() in data for row in np.concatenate([x[5:35], x[80:]]))
    made.write(80, x[80:])
    assert made.read(np.arange(80, 100))[1].all()


@pytest.mark.parametrize("number", range(1, 12))
def test_a_full_disk_leaves_what_was_there_and_can_be_written_later(
    number: int, tmp_path: Path, small_files: None
) -> None:
    x = random_rows(30)
    made = make(tmp_path, x[:5])
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with fault(number, full) as calls, pytest.raises(OSError, match="No space left"):
        made.write(5, x[5:])
    assert len(calls) == number
    np.testing.assert_array_equal(made.read(np.arange(5))[0], x[:5])
    made.write(5, x[5:])
    found, good = made.read(np.arange(30))
    assert good.all()
    np.testing.assert_array_equal(found, x)
