"""`anyshot data`: what task sets there are, getting them, checking them, looking at them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from anyshot.errors import DataError
from anyshot.tasks.catalogue import CATALOGUE, Entry, entry
from anyshot.tasks.store import DataFile, cache_folder, data_folder, find, verified

Name = Literal[tuple(CATALOGUE)]
data = tyro.extras.SubcommandApp()


@data.command(name="list")
def list_sets() -> None:
    """What exists, what of it is here, how large it is and under which licence."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "here", "download", "built", "what", "licence"):
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for name, one in CATALOGUE.items():
        download = f"{sum(file.bytes for file in one.files) / 1e6:.0f} MB" if one.files else "none"
        table.add_row(name, _state(name, one), download, f"{one.built_megabytes} MB", one.summary, one.licence)
    Console(soft_wrap=not sys.stdout.isatty(), width=None if sys.stdout.isatty() else 200).print(table)
    print(f"\nfiles are looked for in ANYSHOT_DATA ({data_folder() or 'not set'}), then in {cache_folder()}")


def _state(name: str, one: Entry) -> str:
    from anyshot.tasks.load import place, stand_in

    if not one.files:
        return "embedded"
    if place(name, one, 0, {})[0].exists():
        return "built"
    if stand_in(one) or all(find(file) for file in one.files):
        return "files"
    return "no: " + ("fetch it" if all(file.urls for file in one.files) else "see fetch")


@data.command
def fetch(name: Annotated[Name, tyro.conf.Positional], rebuild: bool = False, seed: int = 0) -> None:
    """Get the files of a task set, check them and build it, so that from then on it loads in under a second.

    Args:
        name: the task set.
        rebuild: build it anew even if it is here already.
        seed: which image goes to which task.
    """
    from anyshot.tasks.load import built_tasks

    built, fingerprint = built_tasks(name, entry(name), seed, {}, rebuild)
    print(f"{name}: {len(built.task_names):,} tasks, {len(built.arrays['y']):,} examples, fingerprint {fingerprint}")


@data.command
def verify(name: Annotated[Name | None, tyro.conf.Positional] = None) -> None:
    """Check files and built arrays bit by bit; exit code 1 if one is damaged, or if the one named is not here.

    Args:
        name: the task set; without it, all that are here.
    """
    wrong = 0
    for one_name, one in CATALOGUE.items():
        if name in (None, one_name):
            good, told = _verified(one_name, one)
            wrong += not good and (name is not None or told != NOT_HERE)
            print(f"{one_name}: {told}", flush=True)
    if wrong:
        raise DataError("not all is well, see above; `anyshot data fetch NAME --rebuild` builds a set anew")


NOT_HERE = "not here"


def _verified(name: str, one: Entry) -> tuple[bool, str]:
    from anyshot.tasks.cache import Damaged, read
    from anyshot.tasks.load import built_tasks, place, stand_in

    found: list[str] = []
    try:
        files = [file for file in one.files if _is_here(file)]
        found += [f"{len(files)} of {len(one.files)} files good"] if one.files else []
        folder, key = place(name, one, 0, {})
        if not one.files:
            fingerprint = built_tasks(name, one, 0, {})[1]
        elif folder.exists():
            fingerprint = read(folder, key)[1]
        else:
            return len(files) == len(one.files), ", ".join([*found, "not built"]) if files else NOT_HERE
    except (DataError, Damaged) as error:
        return False, f"DAMAGED: {error}"
    if fingerprint == one.fingerprint:
        return True, ", ".join([*found, f"fingerprint {fingerprint[:16]} as it should be"])
    if stand_in(one):
        return True, f"fingerprint {fingerprint[:16]}, built from files of your own"
    return False, f"DAMAGED or built by other software: fingerprint {fingerprint}, but it should be {one.fingerprint}"


def _is_here(file: DataFile) -> bool:
    return verified(file) is not None


@data.command
def show(
    name: Annotated[Name, tyro.conf.Positional], out: Path, tasks: int = 8, examples: int = 10, seed: int = 0
) -> None:
    """Draw a contact sheet: some tasks, some examples each; print each task's number of examples per label.

    Args:
        name: the task set.
        out: the picture to write (.png, .svg or .pdf).
        tasks: how many to show.
        examples: of each task.
        seed: draws the examples.
    """
    from anyshot.tasks.load import load_tasks
    from anyshot.tasks.sheet import contact_sheet, label_counts, save

    loaded = load_tasks(name)
    counts = label_counts(loaded)
    save(contact_sheet(loaded, rows=tasks, columns=examples, seed=seed), out)
    if counts is not None:
        print(f"{'examples per label':24s}" + "".join(f"{label:5d}" for label in range(counts.shape[1])))
        for task, row in zip(loaded.task_names, counts, strict=True):
            print(f"{task:24s}" + "".join(f"{count:5d}" for count in row))
    print(f"contact sheet: {out}")
