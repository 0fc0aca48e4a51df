"""Is what is here as it should be? Every bit is looked at; nothing is changed, least of all deleted."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from anyshot.errors import InputError
from anyshot.tasks.cache import MANIFEST, Damaged, read
from anyshot.tasks.catalogue import Entry
from anyshot.tasks.load import built_tasks, check_settings, differs, is_standard, key_of, place
from anyshot.tasks.own_files import stand_in
from anyshot.tasks.store import cache_folder, find, there, wrong_with


class State(enum.IntEnum):
    """Of a task set; of several findings the largest counts."""

    GOOD = 0  # it can be loaded
    ABSENT = 1
    INCOMPLETE = 2  # some of its files are missing, and it is not built
    DAMAGED = 3  # a file or a built set is not as it should be


class Finding(NamedTuple):
    """What was found of a task set, or of a part of it."""

    state: State
    told: str


def examine(name: str, one: Entry) -> Finding:
    """Check the files of a task set, and all that was built of it with any seed and settings."""
    if not one.files:
        fingerprint = built_tasks(name, one, 0, {})[1]
        if fingerprint == one.fingerprint:
            return Finding(State.GOOD, f"fingerprint {fingerprint[:16]} as it should be")
        return Finding(State.DAMAGED, differs(name, one, fingerprint))
    files = _files(one)
    built = [_built(folder, name, one) for folder in _folders(name)]
    told = [finding.told for finding in (files, *built) if finding.told]
    if damaged := [finding.told for finding in (files, *built) if finding.state is State.DAMAGED]:
        return Finding(State.DAMAGED, f"DAMAGED: {'; '.join(damaged)}")
    if built:
        return Finding(State.GOOD, ", ".join(told))
    return Finding(files.state, ", ".join([*told, "not built"]) if told else "not here")


def _files(one: Entry) -> Finding:
    found = [(file, find(file)) for file in one.files]
    wrong = [wrong_with(path, file) for file, path in found if path]
    if any(wrong):
        return Finding(State.DAMAGED, "; ".join(filter(None, wrong)))
    if path := stand_in(one):
        return Finding(State.GOOD, f"files of your own in {path}")
    told = f"{len(wrong)} of {len(one.files)} files good"
    if len(wrong) == len(one.files):
        return Finding(State.GOOD, told)
    return Finding(State.INCOMPLETE, told) if wrong else Finding(State.ABSENT, "")


def _folders(name: str) -> Iterator[Path]:
    parent = cache_folder() / "built"
    if there(parent) and parent.is_dir():
        yield from sorted(folder for folder in parent.glob(f"{name}-v*") if not folder.name.startswith("."))


def _built(folder: Path, name: str, one: Entry) -> Finding:
    """A folder is judged by the key it was written with."""
    try:
        fingerprint = read(folder)[1]
        key = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["key"]
        return _of_key(folder, key, fingerprint, name, one)
    except Damaged as why:
        return Finding(State.DAMAGED, f"{folder}: {why}")


def _of_key(folder: Path, key: Any, fingerprint: str, name: str, one: Entry) -> Finding:
    try:
        version, seed, settings, made_of_own = key["version"], key["seed"], key["settings"], "made of" in key
        if version != one.version:
            return Finding(State.GOOD, f"{folder.name} of another version, which is not used")
        check_settings(name, one, seed, settings)
    except (KeyError, TypeError, AttributeError, InputError):
        return Finding(State.DAMAGED, f"{folder}: it holds {key}, which is no {name}")
    own = stand_in(one)
    must_have = key_of(name, one, seed, settings, None)
    if folder != place(name, one, seed, settings, Path() if made_of_own else None) or key | must_have != key:
        return Finding(State.DAMAGED, f"{folder}: it holds {key}, which does not belong there")
    short = f"fingerprint {fingerprint[:16]}"
    if made_of_own:
        same = own and key == key_of(name, one, seed, settings, own)
        return Finding(State.GOOD, f"{short}, built from files of your own" + ("" if same else " as they were then"))
    if not is_standard(one, seed, settings):
        return Finding(State.GOOD, f"{folder.name} as it was written")
    if fingerprint != one.fingerprint:
        return Finding(State.DAMAGED, f"{folder}: {differs(name, one, fingerprint)}")
    return Finding(State.GOOD, f"{short} as it should be")
