"""Counts, lists and names in sentences."""

from __future__ import annotations

from collections.abc import Iterable


def count(number: int, noun: str) -> str:
    """A number of things.

    >>> count(1, "task"), count(1234, "task")
    ('1 task', '1,234 tasks')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def join(things: Iterable[object]) -> str:
    """Things with commas and "and" between them.

    >>> join([0, 1, 2]), join(["toe"])
    ('0, 1 and 2', 'toe')
    """
    *most, last = map(str, things)
    return f"{', '.join(most)} and {last}" if most else last


def printable(text: str) -> str:
    r"""A name of anyone's choice, safe in a terminal and on one line: control characters are written as escapes.

    >>> print(printable("toe\x1b[2J\n"))
    toe\x1b[2J\n
    """
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
