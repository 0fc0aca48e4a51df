"""Fingerprints: every bit counts, and published ones never change."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import numpy as np
import pytest

from anyshot.tasks import load_tasks
from anyshot.tasks.catalogue import CATALOGUE
from anyshot.tasks.fingerprint import array_sha256

pytestmark = pytest.mark.medium


@pytest.mark.parametrize("name", [name for name, entry in CATALOGUE.items() if not entry.files])
def test_embedded_sets_have_their_published_fingerprint(name: str, no_data: Path) -> None:
    started = time.perf_counter()
    assert load_tasks(name).fingerprint == CATALOGUE[name].fingerprint
    assert time.perf_counter() - started < 2 * 4, "the bar is 2 s on an idle machine"
    assert load_tasks(name, seed=1).fingerprint != CATALOGUE[name].fingerprint
    assert not no_data.joinpath("cache").exists()


@pytest.mark.parametrize(
    ("name", "seed", "settings", "fingerprint"),
    [
        (
            "rainbow-digits",
            3,
            {"train_rows": 30, "test_rows": 7},
            "93e5c09e76307a16d5de18a984e7abb63e6aa8d8148a155b6e2971f82e303c66",
        ),
        (
            "sinusoid",
            5,
            {"num_tasks": 7, "train_rows": 5, "test_rows": 3},
            "1dad9913dd5d538fe5f53eadf61cc9f33f0b758f637959dc70cbe4bd35c36f6f",
        ),
    ],
)
def test_fingerprints_are_those_of_version_0_1(
    name: str, seed: int, settings: dict[str, int], fingerprint: str
) -> None:
    assert load_tasks(name, seed=seed, rebuild=False, **settings).fingerprint == fingerprint


@pytest.mark.parametrize(
    "name",
    [
        "rainbow-mnist",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("omniglot", "contextual-miniimagenet", "pose")),
    ],
)
def test_sets_of_real_data_have_their_published_fingerprint_and_load_at_once(name: str, with_data: Path) -> None:
    started = time.perf_counter()
    first = load_tasks(name)
    assert time.perf_counter() - started < 120 * 4, "the bar is 2 minutes on 2 idle cores"
    started = time.perf_counter()
    second = load_tasks(name)
    seconds = time.perf_counter() - started
    assert first.fingerprint == second.fingerprint == CATALOGUE[name].fingerprint
    assert seconds < 1 * 4, "the bar is 1 s on an idle machine"
    assert isinstance(second.x, np.memmap)


def test_every_bit_of_an_array_counts() -> None:
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    different = [array.reshape(4, 3), array.astype(np.int64), array.T, array.astype(np.uint32)]
    different += [np.where(np.arange(12).reshape(3, 4) == place, array ^ 1, array) for place in range(12)]
    assert len({array_sha256(each) for each in [array, *different]}) == 1 + len(different)
    assert array_sha256(array.astype(">i4")) == array_sha256(array) == array_sha256(array.copy(order="F"))


def test_large_arrays_are_hashed_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyshot.tasks.fingerprint.BLOCK", 5)
    blocks = b"".join(hashlib.sha256(part).digest() for part in (bytes(range(5)), bytes(range(5, 8))))
    assert array_sha256(np.arange(8, dtype=np.uint8)) == hashlib.sha256(b"|u1 (8,)\n" + blocks).hexdigest()
