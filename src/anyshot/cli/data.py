"""`anyshot data`: list, fetch, verify and show task sets."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from anyshot.errors import DataError, InputError
from anyshot.tasks.catalogue import CATALOGUE, find_entry
from anyshot.tasks.store import cache_folder, data_folder, find

Name = Literal[tuple(CATALOGUE)]
Settings = Annotated[tuple[str, ...], tyro.conf.arg(name="set", metavar="NAME=VALUE ...")]
data = tyro.extras.SubcommandApp()


@data.command(name="list")
def list_sets() -> None:
    """List all task sets: what they are, which are here, their size and licence."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "here", "download", "built", "what", "licence"):
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for name, entry in CATALOGUE.items():
        download = f"{sum(file.bytes for file in entry.files) / 1e6:.0f} MB" if entry.files else "none"
        table.add_row(
            name, _describe_state(name), download, f"{entry.built_megabytes} MB", entry.summary, entry.licence
        )
    if sys.stdout is not None:  # it is None if standard output is closed
        wide = None if sys.stdout.isatty() else 200
        Console(soft_wrap=wide is not None, width=wide).print(table)
    print(f"\nfiles are looked for in ANYSHOT_DATA ({data_folder() or 'not set'}), then in {cache_folder()}")


def _describe_state(name: str) -> str:
    from anyshot.tasks.load import is_built
    from anyshot.tasks.own_files import find_own_files

    entry = find_entry(name)
    if not entry.files:
        return "embedded"
    if is_built(name, 0, {}):
        return "built"
    if find_own_files(entry) or all(find(file) for file in entry.files):
        return "files"
    return "no: " + ("fetch it" if all(file.urls for file in entry.files) else "see fetch")


@data.command
def fetch(
    name: Annotated[Name, tyro.conf.Positional],
    rebuild: bool = False,
    seed: int = 0,
    settings: Settings = (),
) -> None:
    """Download the files of a task set, verify them and build it. After that it loads in under a second.

    Args:
        name: the task set.
        rebuild: build it again even if it is here.
        seed: of the task set: decides, for example, which image goes to which task.
        settings: of the task set, as NAME=VALUE ...; docs/tasks.md lists them.
    """
    from anyshot.tasks.load import load_built

    built, fingerprint = load_built(name, seed, _parse_settings(settings), rebuild=rebuild)
    published = ", as published" if fingerprint == find_entry(name).fingerprint else ""
    counts = f"{len(built.task_names):,} tasks, {len(built.arrays['y']):,} examples"
    print(f"{name}: {counts}, fingerprint {fingerprint}{published}")


def _parse_settings(settings: tuple[str, ...]) -> dict[str, int | str]:
    chosen: dict[str, int | str] = {}
    for text in settings:
        setting, equals, value = text.partition("=")
        number = re.fullmatch(r"-?[0-9]{1,20}", value)
        if not (setting and equals and (number or re.fullmatch(r"[a-z0-9-]{1,20}", value))):
            raise InputError(f"--set takes NAME=VALUE with a number or a word, such as size=42, got {text[:100]!r}")
        if setting in chosen:
            raise InputError(f"--set has {setting} twice; give it once")
        chosen[setting] = int(value) if number else value
    return chosen


@data.command
def verify(name: Annotated[Name | None, tyro.conf.Positional] = None) -> None:
    """Verify files and built task sets bit by bit. Nothing is changed.

    The exit code is 1 if anything is damaged, or if the named task set is not here or incomplete.

    Args:
        name: the task set; by default all that are here.
    """
    from anyshot.tasks.verification import State, examine

    worst = State.GOOD
    for each in CATALOGUE if name is None else [name]:
        finding = examine(each)
        worst = max(worst, finding.state)
        print(f"{each}: {finding.message}", flush=True)
    if worst is State.DAMAGED:
        raise DataError("something is damaged, see above; `anyshot data fetch NAME --rebuild` builds a set again")
    if name is not None and worst is not State.GOOD:
        raise DataError(f"{name} is {worst.name.lower()}; `anyshot data fetch {name}` gets it, or says how to get it")


@data.command
def show(
    name: Annotated[Name, tyro.conf.Positional],
    out: Path,
    tasks: int = 8,
    examples: int = 10,
    seed: int = 0,
    settings: Settings = (),
    draw: int = 0,
) -> None:
    """Draw a contact sheet of random tasks and examples; print the number of examples per label of each task.

    Args:
        name: the task set.
        out: the picture to write (.png, .svg or .pdf); only a new or a regular file.
        tasks: number of tasks to show.
        examples: number of examples of each task.
        seed: of the task set, as for fetch.
        settings: of the task set, as NAME=VALUE ...; docs/tasks.md lists them.
        draw: seed that chooses the tasks and examples to show.
    """
    from anyshot.tasks.load import check_settings, load_tasks
    from anyshot.tasks.randomness import check_seed
    from anyshot.tasks.sheet import check_picture, check_sheet, contact_sheet, label_counts, save

    chosen = _parse_settings(settings)
    check_settings(name, seed, chosen)
    check_seed("draw", draw)
    check_sheet(tasks, examples)
    check_picture(out)
    loaded = load_tasks(name, seed=seed, rebuild=False, **chosen)
    counts = label_counts(loaded)
    save(contact_sheet(loaded, rows=tasks, columns=examples, seed=draw), out)
    if counts is not None:
        print(f"{'examples per label':24s}" + "".join(f"{label:5d}" for label in range(counts.shape[1])))
        for task, row in zip(loaded.task_names, counts, strict=True):
            print(f"{task:24s}" + "".join(f"{count:5d}" for count in row))
    print(f"contact sheet: {out}")


def main(words: list[str]) -> None:
    """Run the command."""
    data.cli(args=words, prog="anyshot data", description="The task sets: what experiments learn from.")
