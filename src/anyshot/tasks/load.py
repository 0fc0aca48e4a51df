"""A task set by its name: built once, kept in the cache, the same on every machine."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyshot.errors import InputError
from anyshot.tasks.built import Built
from anyshot.tasks.cache import cached, fingerprint_of
from anyshot.tasks.catalogue import Entry, entry
from anyshot.tasks.store import cache_folder, data_folder, fetch, find

if TYPE_CHECKING:
    from anyshot.tasks.taskset import TaskSet


def load_tasks(name: str, *, seed: int = 0, rebuild: bool = False, **settings: int) -> TaskSet:
    """The task set of this name (`anyshot data list` shows them), as arrays on the host.

    Args:
        name: of the task set.
        seed: of everything random in it: which image goes to which task, which ones are held for testing.
        rebuild: whether to build it anew even if the cache has it.
        settings: of this task set; see the function that builds it.

    >>> tasks = load_tasks("rainbow-digits")
    >>> print(tasks.tasks, tasks.x.shape, tasks.task_names[13], tasks.given.shape, tasks.held.shape)
    56 (19040, 16, 16, 3) orange half 90 (56, 240) (56, 100)
    """
    one = entry(name)
    built, fingerprint = built_tasks(name, one, seed, settings, rebuild)
    x, y, given, held = (built.arrays[array] for array in ("x", "y", "given", "held"))
    return one.kind()(name, x, y, given, held, built.task_names, fingerprint, built.train_tasks)


def built_tasks(name: str, one: Entry, seed: int, settings: dict[str, int], rebuild: bool = False) -> tuple[Built, str]:
    """Its arrays and their fingerprint: from the cache, or built, or (if embedded) always built."""
    chosen = _checked(name, one, seed, settings)
    if not one.files:
        built = one.builder()({}, seed, **chosen)
        return built, fingerprint_of(built)
    folder, key = place(name, one, seed, chosen)
    if rebuild:
        shutil.rmtree(folder, ignore_errors=True)
    return cached(folder, key, lambda: one.builder()(_files(one), seed, **chosen))


def place(name: str, one: Entry, seed: int, settings: dict[str, int]) -> tuple[Path, dict[str, Any]]:
    """The folder of a built task set, and what is written in it to recognise it."""
    key = {"name": name, "version": one.version, "seed": seed, "settings": one.settings() | settings}
    if stand_in(one):
        key["made of"] = one.instead
    differing = {setting: value for setting, value in settings.items() if value != one.settings()[setting]}
    told = "".join(f"-{setting}{differing[setting]}" for setting in sorted(differing))
    own = "-own-files" if stand_in(one) else ""
    return cache_folder() / "built" / f"{name}-v{one.version}-seed{seed}{told}{own}", key


def stand_in(one: Entry) -> Path | None:
    """The path that stands in for the files, if it is there and they are not all."""
    folder = data_folder()
    path = folder / one.instead if folder and one.instead else None
    return path if path and path.exists() and any(find(file) is None for file in one.files) else None


def _files(one: Entry) -> dict[str, Path]:
    path = stand_in(one)
    return {"images" if path.is_dir() else path.name: path} if path else {file.name: fetch(file) for file in one.files}


def _checked(name: str, one: Entry, seed: Any, settings: dict[str, Any]) -> dict[str, int]:
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0, got {seed!r}")
    for setting, value in settings.items():
        if setting not in one.settings():
            raise InputError(f"{name} has no setting {setting!r}; it has {', '.join(one.settings())}")
        if isinstance(value, bool) or not isinstance(value, int):
            raise InputError(f"{setting} must be a whole number, got {value!r}")
    return settings
