"""Verify the files and the built arrays of a task set, bit by bit. Nothing is changed or deleted."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from anyshot.errors import InputError
from anyshot.tasks.cache import MANIFEST, Damaged, read
from anyshot.tasks.catalogue import Entry, find_entry
from anyshot.tasks.load import (
    built_folder,
    cache_key,
    check_settings,
    explain_fingerprint,
    is_standard,
    load_built,
)
from anyshot.tasks.own_files import find_own_files
from anyshot.tasks.store import cache_folder, explain_mismatch, find, path_exists


class State(enum.IntEnum):
    """State of a task set; the largest of several findings counts."""

    GOOD = 0  # it can be loaded
    ABSENT = 1  # nothing of it is here
    INCOMPLETE = 2  # some of its files are missing, and it is not built
    DAMAGED = 3  # a file or a built set is not as it should be


class Finding(NamedTuple):
    """The state of a task set, or of a part of it, and a message for people."""

    state: State
    message: str


def examine(name: str) -> Finding:
    """Verify the files of a task set, and what was built of it with any seed and settings."""
    entry = find_entry(name)
    if not entry.files:
        fingerprint = load_built(name, 0, {})[1]
        if fingerprint == entry.fingerprint:
            return Finding(State.GOOD, f"fingerprint {fingerprint[:16]} as published")
        return Finding(State.DAMAGED, explain_fingerprint(name, entry, fingerprint))
    files = _examine_files(entry)
    built = [_examine_folder(folder, name, entry) for folder in _built_folders(name)]
    messages = [finding.message for finding in (files, *built) if finding.message]
    if damaged := [finding.message for finding in (files, *built) if finding.state is State.DAMAGED]:
        return Finding(State.DAMAGED, f"DAMAGED: {'; '.join(damaged)}")
    if any(finding.state is State.GOOD for finding in built):
        return Finding(State.GOOD, ", ".join(messages))
    return Finding(files.state, ", ".join([*messages, "not built"]) if messages else "not here")


def _examine_files(entry: Entry) -> Finding:
    found = [(file, find(file)) for file in entry.files]
    mismatches = [explain_mismatch(path, file) for file, path in found if path]
    if any(mismatches):
        return Finding(State.DAMAGED, "; ".join(filter(None, mismatches)))
    if path := find_own_files(entry):
        return Finding(State.GOOD, f"files of your own in {path}")
    message = f"{len(mismatches)} of {len(entry.files)} files good"
    if len(mismatches) == len(entry.files):
        return Finding(State.GOOD, message)
    return Finding(State.INCOMPLETE, message) if mismatches else Finding(State.ABSENT, "")


def _built_folders(name: str) -> Iterator[Path]:
    parent = cache_folder() / "built"
    if path_exists(parent) and parent.is_dir():
        yield from sorted(folder for folder in parent.glob(f"{name}-v*") if not folder.name.startswith("."))


def _examine_folder(folder: Path, name: str, entry: Entry) -> Finding:
    try:
        fingerprint = read(folder)[1]
        key = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["key"]
        return _examine_key(folder, key, fingerprint, name, entry)
    except Damaged as why:
        return Finding(State.DAMAGED, f"{folder}: {why}")


def _examine_key(folder: Path, key: Any, fingerprint: str, name: str, entry: Entry) -> Finding:
    """Whether a whole folder holds what its name and its key say."""
    try:
        version, seed, settings, has_own = key["version"], key["seed"], key["settings"], "made of" in key
        if version != entry.version:
            return Finding(State.ABSENT, f"{folder.name} of another version, which is not used")
        check_settings(name, seed, settings)
    except (KeyError, TypeError, AttributeError, InputError):
        return Finding(State.DAMAGED, f"{folder}: it holds {key}, which is not {name}")
    own = find_own_files(entry)
    expected = cache_key(name, seed, settings, None)
    if folder != built_folder(name, seed, settings, Path() if has_own else None) or key | expected != key:
        return Finding(State.DAMAGED, f"{folder}: it holds {key}, which does not belong there")
    short = f"fingerprint {fingerprint[:16]}"
    if has_own:
        same = own and key == cache_key(name, seed, settings, own)
        return Finding(State.GOOD, f"{short}, built from {'' if same else 'an earlier state of '}your own files")
    if not is_standard(entry, seed, settings):
        return Finding(State.GOOD, f"{folder.name} as written")
    if fingerprint != entry.fingerprint:
        return Finding(State.DAMAGED, f"{folder}: {explain_fingerprint(name, entry, fingerprint)}")
    return Finding(State.GOOD, f"{short} as published")
