"""Numbers, lists and tables as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anyshot.report.statistics import Difference, Spread


def format_spread(value: Spread, digits: int) -> str:
    """Mean ± standard deviation.

    >>> format_spread(Spread(1234.56, 7.0, 3), 1), format_spread(Spread(3.0, None, 1), 0)
    ('1,234.6 ± 7.0', '3')
    """
    more = "" if value.deviation is None else f" ± {value.deviation:,.{digits}f}"
    return f"{value.mean:,.{digits}f}{more}"


def format_difference(value: Difference, digits: int) -> str:
    """Mean and 95 % interval.

    >>> format_difference(Difference(-2.0, -4.5, 0.5, 0.1, 3), 1)
    '-2.0 [-4.5, +0.5]'
    """
    more = "" if value.low is None else f" [{value.low:+,.{digits}f}, {value.high:+,.{digits}f}]"
    return f"{value.mean:+,.{digits}f}{more}"


def describe_certainty(value: Difference) -> str:
    """Whether the interval excludes zero, and over how many pairs.

    >>> describe_certainty(Difference(-2.0, -4.5, 0.5, 0.1, 3))
    '95 % interval includes 0 (n = 3)'
    """
    if value.low is None:
        return f"no interval (n = {value.n})"
    return f"95 % interval {'excludes' if value.excludes_zero else 'includes'} 0 (n = {value.n})"


def format_p(p: float | None) -> str:
    """A p value.

    >>> format_p(0.0124), format_p(0.0001), format_p(None)
    ('0.012', '< 0.001', '')
    """
    if p is None:
        return ""
    return f"{p:.3f}" if p >= 0.0005 else "< 0.001"


def format_minutes(minutes: float) -> str:
    """A duration.

    >>> format_minutes(0.4), format_minutes(7.4), format_minutes(200.0)
    ('1 minute', '7 minutes', '3.3 hours')
    """
    whole = max(1, round(minutes))
    return f"{whole} minute{'s' * (whole > 1)}" if minutes < 100 else f"{minutes / 60:.1f} hours"


def join_words(things: Iterable[object]) -> str:
    """Things in a sentence.

    >>> join_words([0, 1, 2]), join_words(["toe"])
    ('0, 1 and 2', 'toe')
    """
    *most, last = map(str, things)
    return f"{', '.join(most)} and {last}" if most else last


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table; the first row is its head.

    >>> print(markdown([["a", "b"], ["1", "2"]]))
    | a | b |
    | --- | --- |
    | 1 | 2 |
    """
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])
