"""Counts and lists in words."""

from __future__ import annotations

from collections.abc import Iterable


def counted(count: int, what: str) -> str:
    """A number of things.

    >>> counted(1, "task"), counted(1234, "task")
    ('1 task', '1,234 tasks')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"


def listed(things: Iterable[object]) -> str:
    """Things with words between them.

    >>> listed([0, 1, 2]), listed(["toe"])
    ('0, 1 and 2', 'toe')
    """
    *most, last = map(str, things)
    return f"{', '.join(most)} and {last}" if most else last
