"""Names with a line each, lined up."""

from __future__ import annotations

from collections.abc import Mapping

from anyshot.errors import InputError


def listed(lines: Mapping[str, str]) -> str:
    """One line for each name."""
    width = max(map(len, lines))
    return "\n".join(f"  {name:{width}}  {told}" for name, told in lines.items())


def print_list(command: str, lists: Mapping[str, Mapping[str, str]], words: list[str]) -> None:
    """All of a command that only lists."""
    if words and words != ["--help"] and words != ["-h"]:
        raise InputError(f"anyshot {command} takes no arguments, got {' '.join(words)!r}")
    print("\n\n".join(f"{what}:\n{listed(lines)}" for what, lines in lists.items()))
