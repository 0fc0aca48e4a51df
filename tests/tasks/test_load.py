"""Task sets by name: settings, their limits, origins and warnings."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import pytest

from anyshot.errors import InputError
from anyshot.tasks import Origin, load_tasks, store
from anyshot.tasks.catalogue import CATALOGUE
from anyshot.tasks.load import explain_fingerprint, is_built


def test_a_set_with_another_fingerprint_is_loaded_with_a_warning(
    no_data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = load_tasks("sinusoid").fingerprint
    assert capsys.readouterr().err == ""
    monkeypatch.setitem(CATALOGUE, "sinusoid", dataclasses.replace(CATALOGUE["sinusoid"], fingerprint="0" * 64))
    assert load_tasks("sinusoid").fingerprint == real
    warning = capsys.readouterr().err
    assert warning.count("\n") == 1
    assert real in warning
    assert "0" * 64 in warning
    load_tasks("sinusoid", seed=1)
    load_tasks("sinusoid", test_rows=7)
    assert capsys.readouterr().err == ""
    assert "another OpenGL" in explain_fingerprint("pose", CATALOGUE["pose"], "f")


def test_an_origin_makes_the_set_again(no_data: Path) -> None:
    first = load_tasks("sinusoid", seed=4, num_tasks=5, train_rows=100, test_rows=2)
    assert first.origin == Origin("sinusoid", 4, (("num_tasks", 5), ("test_rows", 2))), "defaults are left out"
    assert hash(first.origin) == hash(first.on_device().origin)
    again = load_tasks(first.origin.name, seed=first.origin.seed, rebuild=False, **dict(first.origin.settings))
    assert (again.fingerprint, again.origin) == (first.fingerprint, first.origin)
    assert first.select([0, 1]).origin is None


def test_is_built(no_data: Path) -> None:
    assert is_built("sinusoid", 0, {})
    assert not is_built("rainbow-mnist", 0, {})
    (no_data / "cache/built/rainbow-mnist-v2-seed3-test_rows5").mkdir(parents=True)
    assert is_built("rainbow-mnist", 3, {"test_rows": 5, "train_rows": 800})
    assert not is_built("rainbow-mnist", 3, {})
    with pytest.raises(InputError, match="width"):
        is_built("rainbow-mnist", 0, {"width": 3})


HUGE = 10**12


@pytest.mark.usefixtures("without_types")
@pytest.mark.parametrize(
    ("name", "settings", "parts"),
    [
        ("rainbow-mnits", {}, ["'rainbow-mnits'", "did you mean 'rainbow-mnist'"]),
        ([], {}, ["name", "[]"]),
        (None, {}, ["name", "None"]),
        (5, {}, ["name", "5"]),
        ("sinusoid", {"seed": -1}, ["seed", "-1"]),
        ("sinusoid", {"seed": 2**32}, ["seed", "4294967296"]),
        ("sinusoid", {"seed": 0.5}, ["seed", "0.5"]),
        ("sinusoid", {"width": 3}, ["'width'", "num_tasks, train_rows, test_rows"]),
        ("sinusoid", {"train_rows": True}, ["train_rows", "True"]),
        ("sinusoid", {"num_tasks": 1}, ["num_tasks", "from 2 ", "got 1"]),
        ("sinusoid", {"num_tasks": 10**9}, ["num_tasks", str(10**9)]),
        ("sinusoid", {"train_rows": HUGE}, ["train_rows", str(HUGE)]),
        ("sinusoid", {"test_rows": HUGE}, ["test_rows", str(HUGE)]),
        ("sinusoid", {"test_rows": -1}, ["test_rows", "-1"]),
        ("sinusoid", {"num_tasks": 10**5, "train_rows": 10**6}, ["num_tasks x (train_rows + test_rows)", "1000000"]),
        ("rainbow-digits", {"train_rows": 1298}, ["train_rows", "1 to 1,297", "1298"]),
        ("rainbow-digits", {"train_rows": 0}, ["train_rows", "got 0"]),
        ("rainbow-digits", {"test_rows": 501}, ["test_rows", "0 to 500", "501"]),
        ("rainbow-mnist", {"train_rows": HUGE}, ["train_rows", str(HUGE)]),
        ("rainbow-mnist", {"train_rows": 1000, "test_rows": 72}, ["train_rows + test_rows", "1071", "1000 + 72"]),
        ("contextual-miniimagenet", {"size": 85}, ["size", "4 to 84", "85"]),
        ("contextual-miniimagenet", {"test_rows": 599}, ["test_rows", "0 to 598", "599"]),
        ("pose", {"target": "degrees"}, ["target", "turns, 10-turns, sin-cos", "degrees"]),
        ("pose", {"target": 10}, ["target", "a word", "10"]),
        ("pose", {"size": "128"}, ["size", "whole number", "'128'"]),
        ("pose", {"size": 513}, ["size", "8 to 512", "513"]),
        ("pose", {"train_rows": HUGE}, ["train_rows", str(HUGE)]),
        ("pose", {"test_rows": HUGE}, ["test_rows", str(HUGE)]),
        ("pose", {"train_rows": 9_000, "size": 512}, ["(train_rows + test_rows) x size x size", "9000"]),
        ("omniglot", {"size": 0}, ["size", "4 to 105", "got 0"]),
        ("omniglot", {"rotations": 3}, ["rotations", "1, 2 or 4", "got 3"]),
    ],
)
def test_bad_settings_get_one_sentence_before_anything_is_fetched(
    name: Any, settings: dict[str, Any], parts: list[str], no_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "stream", lambda *_: pytest.fail("downloaded"))
    started = time.perf_counter()
    with pytest.raises(InputError) as caught:
        load_tasks(name, **settings)
    assert time.perf_counter() - started < 5, "nothing is allocated"
    message = str(caught.value)
    assert all(part in message for part in parts), message
    assert "\n" not in message
    assert not no_data.joinpath("cache").exists()


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_set_has_limits_that_its_defaults_keep(name: str) -> None:
    entry = CATALOGUE[name]
    entry.check_settings({})
    for setting in entry.settings():
        for value in ("-1", "") if setting == "target" else (-1, 10**18):
            with pytest.raises(InputError, match=setting):
                entry.check_settings({setting: value})
