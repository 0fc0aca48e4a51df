"""`anyshot data`: what task sets there are, getting them, checking them, looking at them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from anyshot.errors import DataError, InputError
from anyshot.tasks.catalogue import CATALOGUE, Entry, entry
from anyshot.tasks.store import cache_folder, data_folder, find, there

Name = Literal[tuple(CATALOGUE)]
Settings = Annotated[tuple[str, ...], tyro.conf.arg(name="set", metavar="NAME=VALUE ...")]
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
    if sys.stdout is not None:  # it is None where standard output is closed
        wide = None if sys.stdout.isatty() else 200
        Console(soft_wrap=wide is not None, width=wide).print(table)
    print(f"\nfiles are looked for in ANYSHOT_DATA ({data_folder() or 'not set'}), then in {cache_folder()}")


def _state(name: str, one: Entry) -> str:
    from anyshot.tasks.load import place
    from anyshot.tasks.own_files import stand_in

    if not one.files:
        return "embedded"
    own = stand_in(one)
    if there(place(name, one, 0, {}, own)):
        return "built"
    if own or all(find(file) for file in one.files):
        return "files"
    return "no: " + ("fetch it" if all(file.urls for file in one.files) else "see fetch")


@data.command
def fetch(
    name: Annotated[Name, tyro.conf.Positional],
    rebuild: bool = False,
    seed: int = 0,
    settings: Settings = (),
) -> None:
    """Get the files of a task set, check them and build it, so that from then on it loads in under a second.

    Args:
        name: the task set.
        rebuild: build it anew even if it is here already.
        seed: of the task set: which image goes to which task.
        settings: of the task set, as NAME=VALUE ...; docs/tasks.md lists them.
    """
    from anyshot.tasks.load import built_tasks

    one, chosen = entry(name), _parsed(settings)
    built, fingerprint = built_tasks(name, one, seed, chosen, rebuild)
    told = ", as it should be" if fingerprint == one.fingerprint else ""
    counts = f"{len(built.task_names):,} tasks, {len(built.arrays['y']):,} examples"
    print(f"{name}: {counts}, fingerprint {fingerprint}{told}")


def _parsed(settings: tuple[str, ...]) -> dict[str, int]:
    chosen: dict[str, int] = {}
    for text in settings:
        setting, equals, value = text.partition("=")
        if not (setting and equals and value.removeprefix("-").isdecimal() and value.isascii()):
            raise InputError(f"--set takes NAME=VALUE with a whole number, such as size=42, got {text!r}")
        if setting in chosen:
            raise InputError(f"--set has {setting} twice; give it once")
        chosen[setting] = int(value)
    return chosen


@data.command
def verify(name: Annotated[Name | None, tyro.conf.Positional] = None) -> None:
    """Check files and all that was built bit by bit, and change nothing.

    The exit code is 1 if anything is damaged, or if the task set named is not here or not complete.

    Args:
        name: the task set; without it, all that are here.
    """
    from anyshot.tasks.verification import State, examine

    worst = State.GOOD
    for one_name, one in CATALOGUE.items():
        if name in (None, one_name):
            finding = examine(one_name, one)
            worst = max(worst, finding.state)
            print(f"{one_name}: {finding.told}", flush=True)
    if worst is State.DAMAGED:
        raise DataError("not all is well, see above; `anyshot data fetch NAME --rebuild` builds a set anew")
    if name is not None and worst is not State.GOOD:
        raise DataError(f"{name} is {worst.name.lower()}; `anyshot data fetch {name}` gets it, or says what to do")


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
    """Draw a contact sheet: some tasks, some examples each; print each task's number of examples per label.

    Args:
        name: the task set.
        out: the picture to write (.png, .svg or .pdf); a link of that name is replaced.
        tasks: how many to show.
        examples: of each task.
        seed: of the task set, as for fetch.
        settings: of the task set, as NAME=VALUE ...; docs/tasks.md lists them.
        draw: seed that chooses which tasks and examples are shown.
    """
    from anyshot.tasks.load import check_seed, check_settings, load_tasks
    from anyshot.tasks.sheet import check_out, check_sheet, contact_sheet, label_counts, save

    chosen = _parsed(settings)
    check_settings(name, entry(name), seed, chosen)
    check_seed("draw", draw)
    check_sheet(tasks, examples)
    check_out(out)
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
