"""Things by name: built in, registered in Python, or offered by other packages as entry points."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from anyshot.errors import InputError

MOST_LISTED = 330  # characters of names that are all listed beside the nearest one


@dataclass(frozen=True)
class Entry:
    """One thing that has a name.

    Attributes:
        summary: what it is, in one line.
        target: the thing itself, or "module:name" to import it from when it is first used.
    """

    summary: str
    target: Any

    def load(self) -> Any:
        """The thing itself."""
        if not isinstance(self.target, str):
            return self.target
        module, name = self.target.split(":")
        return getattr(import_module(module), name)


class Registry(Mapping[str, Entry]):
    """Names and what they stand for. Listing the names imports nothing but the entry points of other packages.

    Args:
        noun: what one entry is called in messages, such as "learner".
        group: the entry-point group in which other packages offer theirs, such as "anyshot.learners".
        built_in: the entries that come with anyshot.

    >>> fruit = Registry("fruit", "example.fruit", {"apple": Entry("red or green", "math:pi")})
    >>> fruit.register("plum", 3, summary="blue")
    >>> list(fruit), fruit["plum"].load()
    (['apple', 'plum'], 3)
    """

    def __init__(self, noun: str, group: str, built_in: Mapping[str, Entry]) -> None:
        self.noun, self.group = noun, group
        self._entries = dict(built_in)
        self._looked_outside = False

    def register(self, name: str, target: Any, summary: str = "") -> None:
        """Add an entry; a name that is taken is refused.

        Args:
            name: letters, digits, "+", "-", "_" and "."; it begins with a letter or digit.
            target: what it stands for.
            summary: what it is, in one line; by default the first line of its docstring.
        """
        check_name(self.noun, name)
        self._load_entry_points()
        if name in self._entries:
            raise InputError(f"{self.noun} {name!r} is already registered; choose another name")
        self._entries[name] = Entry(summary or _first_line(target), target)

    def find(self, name: str) -> Entry:
        """The entry of this name; an unknown name is refused with the nearest one."""
        self._load_entry_points()
        if name not in self._entries:
            near = difflib.get_close_matches(str(name), self._entries, 1)
            known = ", ".join(self._entries)
            hints = [f"did you mean {near[0]!r}?"] if near else []
            hints += [f"there are {known}"] if not near or len(known) <= MOST_LISTED else []
            raise InputError(f"there is no {self.noun} {name!r}; {' '.join(hints)}")
        return self._entries[name]

    def summaries(self) -> dict[str, str]:
        """One line for each name."""
        return {name: entry.summary for name, entry in self.items()}

    def __getitem__(self, name: str) -> Entry:
        self._load_entry_points()
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        self._load_entry_points()
        return iter(self._entries)

    def __len__(self) -> int:
        self._load_entry_points()
        return len(self._entries)

    def _load_entry_points(self) -> None:
        """Take in what other packages offer, once. Their modules are imported only when an entry is used."""
        if self._looked_outside:
            return
        self._looked_outside = True
        for point in entry_points(group=self.group):
            check_name(self.noun, point.name)
            self._entries.setdefault(point.name, Entry(f"from {point.value.split(':')[0]}", point.value))


def check_name(noun: str, name: Any) -> None:
    """Refuse a name that could not stand in a table, a command line or a file name."""
    ok = isinstance(name, str) and name[:1].isalnum() and name.isascii()
    if not ok or not all(letter.isalnum() or letter in "+-_." for letter in name):
        raise InputError(
            f"the name of a {noun} must begin with a letter or digit and hold only letters, digits, '+', '-', '_' and "
            f"'.', got {name!r}"
        )


def keyword_defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """The keyword-only parameters of a function that have defaults: its settings.

    >>> keyword_defaults(sorted)
    {'key': None, 'reverse': False}
    """
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is not p.empty}


def _first_line(target: Any) -> str:
    return (inspect.getdoc(target) or "").partition("\n")[0]
