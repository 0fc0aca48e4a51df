"""A snapshot that is damaged is noticed, wherever the damage is, and stands in nobody's way."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from anyshot.errors import DataError
from anyshot.lifelong import Lifelong
from anyshot.lifelong.snapshots import read_snapshot, write_snapshot
from tests.support.lives import draw_task, make_life
from tests.support.refusals import assert_refused

POINTS = np.random.default_rng(9).normal(size=(7, 3)).astype(np.float32)
ARRAYS = {"a": np.arange(3.0), "b": np.ones((2, 2), np.float32)}


def test_every_flipped_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_snapshot(path, ARRAYS, {"tag": "good"})
    arrays, about = read_snapshot(path)
    assert about["tag"] == "good"
    np.testing.assert_equal(arrays, ARRAYS)
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(DataError, match="damaged"):
            read_snapshot(path)


def test_a_newer_format_is_told_from_damage_and_older_snapshots_still_open(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(save(ARRAYS, {"anyshot": json.dumps({"format": 1, "tag": "old"})}))
    np.testing.assert_equal(read_snapshot(path)[0], ARRAYS)
    path.write_bytes(save(ARRAYS, {"anyshot": json.dumps({"format": 9})}))
    with pytest.raises(DataError, match="damaged"):
        read_snapshot(path)
    write_snapshot(path, ARRAYS, {"format": 9})
    with pytest.raises(DataError, match="newer anyshot"):
        read_snapshot(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a life with three snapshots."""
    with make_life(tmp_path / "life") as life:
        life.task("a", classes=["no", "yes"]).observe(*draw_task(0))
        for _ in range(3):
            life.learn(updates=1)
    return tmp_path / "life"


def cut(path: Path) -> None:
    os.truncate(path, 100)


def flip_a_weight(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


@pytest.mark.parametrize("damage", [cut, flip_a_weight])
@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.medium
def test_the_newest_that_is_whole_is_used_with_a_warning(folder: Path, damage: Any) -> None:
    newest = sorted((folder / "snapshots").iterdir())[-1]
    damage(newest)
    with Lifelong(folder) as life:
        with pytest.warns(UserWarning, match=rf"000000000002.safetensors is used instead.*{newest.name}"):
            assert "2 updates" in repr(life)
        assert [one.number for one in life.snapshots][:2] == [1, 2]
        assert life.task("a").predict(POINTS).shape == (7,)
        life.task("a").observe(POINTS[:1], ["yes"])
        life.roll_back(1)
        assert "1 updates" in repr(life)
        life.save("before")
        assert [(one.number, one.tag) for one in life.snapshots][-1] == (5, "before")
        life.forget("a")
        assert not newest.exists()


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.medium
def test_if_all_are_damaged_learning_begins_anew(folder: Path) -> None:
    for path in (folder / "snapshots").iterdir():
        cut(path)
    with Lifelong(folder) as life:
        with pytest.warns(UserWarning, match="learning begins anew"):
            assert life.learn(updates=1) == 1
        assert [one.number for one in life.snapshots] == [4]


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.medium
def test_what_was_learned_before_can_be_saved_at_once(folder: Path, tmp_path: Path) -> None:
    with Lifelong(folder) as life:
        life.save("before")
        assert [one.tag for one in life.snapshots][-1] == "before"
    with make_life(tmp_path / "new") as new:
        assert_refused(lambda: new.save("before"), ["nothing to save yet"])
        new.task("a", classes=["no", "yes"]).predict(POINTS)
        assert_refused(lambda: new.save("before"), ["nothing to save yet"])
