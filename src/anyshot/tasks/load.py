"""Task sets by name: built once, kept in the cache, the same on every machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anyshot.errors import InputError
from anyshot.tasks.built import Built
from anyshot.tasks.cache import load_or_build
from anyshot.tasks.catalogue import Entry, Setting, find_entry
from anyshot.tasks.own_files import find_own_files, hash_own_files
from anyshot.tasks.progress import tell
from anyshot.tasks.randomness import check_seed
from anyshot.tasks.store import cache_folder, explain_missing, fetch, find, path_exists

if TYPE_CHECKING:
    from anyshot.tasks.taskset import TaskSet


def load_tasks(name: str, *, seed: int = 0, rebuild: bool = False, **settings: Setting) -> TaskSet:
    """Load a task set by its name; `anyshot data list` shows the names.

    The first call downloads and builds the set, later ones read it from the cache. The arrays stay on the host. If a
    set with seed 0 and default settings does not have its published fingerprint, a warning goes to standard error.

    Args:
        name: of the task set.
        seed: of everything random in it, such as which image goes to which task and which rows are for testing.
        rebuild: build it again even if it is in the cache; the old one stays until the new one is complete.
        settings: of this task set; docs/tasks.md lists them.

    >>> tasks = load_tasks("rainbow-digits")
    >>> print(tasks.num_tasks, tasks.x.shape, tasks.task_names[13], tasks.train_rows.shape, tasks.test_rows.shape)
    56 (19040, 16, 16, 3) orange half 90 (56, 240) (56, 100)
    """
    from anyshot.tasks.taskset import Origin

    entry = find_entry(name)
    built, fingerprint = load_built(name, seed, settings, rebuild=rebuild)
    return entry.kind()(
        name,
        built.arrays["x"],
        built.arrays["y"],
        # Copied into memory, as compiled draws cannot read files.
        np.array(built.arrays["train_rows"]),
        np.array(built.arrays["test_rows"]),
        built.task_names,
        fingerprint,
        built.train_tasks,
        origin=Origin(name, seed, tuple(sorted(changed_settings(entry, settings).items()))),
    )


def load_built(name: str, seed: int, settings: dict[str, Setting], *, rebuild: bool = False) -> tuple[Built, str]:
    """The arrays of a task set and their fingerprint, without JAX; see `load_tasks`."""
    entry = find_entry(name)
    check_settings(name, seed, settings)
    if not entry.files:
        own = None
        built = entry.builder()({}, seed, **settings)
        fingerprint = built.fingerprint()
    else:
        own = find_own_files(entry)
        built, fingerprint = load_or_build(
            built_folder(name, seed, settings, own),
            cache_key(name, seed, settings, own),
            lambda: entry.builder()(_collect_files(entry, own), seed, **settings),
            rebuild=rebuild,
        )
    if own is None and is_standard(entry, seed, settings) and fingerprint != entry.fingerprint:
        tell(f"warning: {explain_fingerprint(name, entry, fingerprint)}")
    return built, fingerprint


def is_built(name: str, seed: int, settings: dict[str, Setting]) -> bool:
    """Whether `load_tasks` can load the set without downloading or building anything; its content is not checked."""
    entry = find_entry(name)
    check_settings(name, seed, settings)
    return not entry.files or path_exists(built_folder(name, seed, settings, find_own_files(entry)))


def check_settings(name: str, seed: Any, settings: dict[str, Any]) -> None:
    """Raise `InputError` for a seed or settings that the task set of this name cannot have."""
    entry = find_entry(name)
    check_seed("seed", seed)
    for setting, value in settings.items():
        if setting not in entry.settings():
            raise InputError(f"{name} has no setting {setting!r}; it has {', '.join(entry.settings())}")
        kind = type(entry.settings()[setting])
        if type(value) is not kind:
            raise InputError(f"{setting} must be a {'whole number' if kind is int else 'word'}, got {value!r}")
    entry.check_settings(settings)


def changed_settings(entry: Entry, settings: dict[str, Setting]) -> dict[str, Setting]:
    """The settings that are not the default."""
    defaults = entry.settings()
    return {setting: value for setting, value in settings.items() if value != defaults[setting]}


def is_standard(entry: Entry, seed: int, settings: dict[str, Setting]) -> bool:
    """Whether the set must have the fingerprint of the catalogue."""
    return seed == 0 and not changed_settings(entry, settings)


def explain_fingerprint(name: str, entry: Entry, fingerprint: str) -> str:
    """A sentence for a set that is whole but has another fingerprint than the catalogue."""
    why = f"{entry.varies_with} may round differently" if entry.varies_with else "other software has built it"
    return f"{name} has fingerprint {fingerprint}, but the catalogue says {entry.fingerprint}: {why}"


def built_folder(name: str, seed: int, settings: dict[str, Setting], own: Path | None) -> Path:
    """The folder of a built task set in the cache; `own` is the path of the user's own files, if it is made of them."""
    entry = find_entry(name)
    changed = sorted(changed_settings(entry, settings).items())
    suffix = "".join(f"-{setting}{value}" for setting, value in changed) + ("-own-files" if own else "")
    return cache_folder() / "built" / f"{name}-v{entry.version}-seed{seed}{suffix}"


def cache_key(name: str, seed: int, settings: dict[str, Setting], own: Path | None) -> dict[str, Any]:
    """What is written into the folder of a built task set to recognise it."""
    entry = find_entry(name)
    key = {"name": name, "version": entry.version, "seed": seed, "settings": entry.settings() | settings}
    return key | {"made of": entry.instead, "digest": hash_own_files(own)} if own else key


def _collect_files(entry: Entry, own: Path | None) -> dict[str, Path]:
    """Where the files of the set are; they are downloaded if need be."""
    if own:
        return {"images" if own.is_dir() else own.name: own}
    if missing := [file for file in entry.files if not file.urls and find(file) is None]:
        raise explain_missing(missing)
    return {file.name: fetch(file) for file in entry.files}
