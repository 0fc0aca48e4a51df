"""Counts, lists and certainty in words."""

from __future__ import annotations

from collections.abc import Iterable

from anyshot.report.spread import Difference


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


def certainty(less: Difference, digits: int, scale: int = 1) -> str:
    """How sure a difference is; nothing with one pair, which says nothing about the spread.

    >>> certainty(Difference(2.0, -0.5, 4.5), digits=1)
    'the 95 % interval of the difference, [-0.5, +4.5], includes zero, so this may be chance'
    """
    if less.low is None or less.high is None:
        return ""
    interval = f"[{scale * less.low:+,.{digits}f}, {scale * less.high:+,.{digits}f}]"
    verdict = "excludes zero" if less.excludes_zero else "includes zero, so this may be chance"
    return f"the 95 % interval of the difference, {interval}, {verdict}"
