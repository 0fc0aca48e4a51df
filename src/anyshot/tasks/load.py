"""A task set by its name: built once, kept in the cache, the same on every machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anyshot.errors import InputError
from anyshot.tasks.built import Built
from anyshot.tasks.cache import cached, fingerprint_of
from anyshot.tasks.catalogue import Entry, entry
from anyshot.tasks.own_files import digest, stand_in
from anyshot.tasks.progress import tell
from anyshot.tasks.store import cache_folder, fetch, find, missing

if TYPE_CHECKING:
    from anyshot.tasks.taskset import TaskSet


def load_tasks(name: str, *, seed: int = 0, rebuild: bool = False, **settings: int) -> TaskSet:
    """The task set of this name (`anyshot data list` shows them), as arrays on the host.

    A standard set (seed 0, default settings) that does not have the fingerprint of the table is loaded with a warning
    on standard error.

    Args:
        name: of the task set.
        seed: of everything random in it: which image goes to which task, which ones are held for testing.
        rebuild: whether to build it anew even if the cache has it; what is there stays until that is done.
        settings: of this task set; docs/tasks.md has a table of them.

    >>> tasks = load_tasks("rainbow-digits")
    >>> print(tasks.tasks, tasks.x.shape, tasks.task_names[13], tasks.given.shape, tasks.held.shape)
    56 (19040, 16, 16, 3) orange half 90 (56, 240) (56, 100)
    """
    one = entry(name)
    built, fingerprint = built_tasks(name, one, seed, settings, rebuild)
    x, y = built.arrays["x"], built.arrays["y"]
    given, held = (np.array(built.arrays[part]) for part in ("given", "held"))  # small, so that draws may be compiled
    return one.kind()(name, x, y, given, held, built.task_names, fingerprint, built.train_tasks)


def built_tasks(name: str, one: Entry, seed: int, settings: dict[str, int], rebuild: bool = False) -> tuple[Built, str]:
    """Its arrays and their fingerprint: from the cache, or built, or (if embedded) always built."""
    check_settings(name, one, seed, settings)
    own = stand_in(one) if one.files else None
    if not one.files:
        built = one.builder()({}, seed, **settings)
        fingerprint = fingerprint_of(built)
    else:
        folder, key = place(name, one, seed, settings, own), key_of(name, one, seed, settings, own)
        built, fingerprint = cached(
            folder, key, lambda: one.builder()(_files(one, own), seed, **settings), rebuild=rebuild
        )
    if own is None and is_standard(one, seed, settings) and fingerprint != one.fingerprint:
        tell(f"warning: {differs(name, one, fingerprint)}")
    return built, fingerprint


def is_standard(one: Entry, seed: int, settings: dict[str, int]) -> bool:
    """Whether it must have the fingerprint of the table."""
    return seed == 0 and one.settings() | settings == one.settings()


def differs(name: str, one: Entry, fingerprint: str) -> str:
    """The sentence for a set that is whole, but not that of the table."""
    why = f"{one.varies_with} may round differently" if one.varies_with else "other software has built it"
    return f"{name} has fingerprint {fingerprint}, but the table says {one.fingerprint}: {why}"


def place(name: str, one: Entry, seed: int, settings: dict[str, int], own: Path | None) -> Path:
    """The folder of a built task set; `own` is what stands in for its files."""
    differing = {setting: value for setting, value in settings.items() if value != one.settings()[setting]}
    told = "".join(f"-{setting}{differing[setting]}" for setting in sorted(differing))
    told += "-own-files" if own else ""
    return cache_folder() / "built" / f"{name}-v{one.version}-seed{seed}{told}"


def key_of(name: str, one: Entry, seed: int, settings: dict[str, int], own: Path | None) -> dict[str, Any]:
    """What is written in that folder to recognise it."""
    key = {"name": name, "version": one.version, "seed": seed, "settings": one.settings() | settings}
    return key | {"made of": one.instead, "digest": digest(own)} if own else key


def _files(one: Entry, own: Path | None) -> dict[str, Path]:
    if own:
        return {"images" if own.is_dir() else own.name: own}
    if lacking := [file for file in one.files if not file.urls and find(file) is None]:
        raise missing(lacking)
    return {file.name: fetch(file) for file in one.files}


def check_settings(name: str, one: Entry, seed: Any, settings: dict[str, Any]) -> None:
    """Raise `InputError` for a seed or settings that no task set of this name can have."""
    check_seed("seed", seed)
    for setting, value in settings.items():
        if setting not in one.settings():
            raise InputError(f"{name} has no setting {setting!r}; it has {', '.join(one.settings())}")
        if isinstance(value, bool) or not isinstance(value, int):
            raise InputError(f"{setting} must be a whole number, got {value!r}")


def check_seed(name: str, seed: Any) -> None:
    """A seed is what 32 bits hold: JAX's keys take no more everywhere."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise InputError(f"{name} must be a whole number of at least 0 and below 2**32, got {seed!r}")
