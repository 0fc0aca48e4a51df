"""The largest numbers that protocols accept, and the check for them; JAX is not imported."""

from __future__ import annotations

import numbers

from anyshot.errors import InputError

MOST_STEPS = 10**9  # counters are 32 bits wide
MOST_SIZE = 100_000  # datapoints or tasks drawn at once
MOST_STEPS_AT_ONCE = 10_000  # updates in one compiled call, which Ctrl-C cannot interrupt


def check_whole(name: str, value: object, least: int, most: int) -> None:
    """Refuse what is not a whole number in a range.

    >>> check_whole("steps", 5, least=1, most=10)
    """
    if type(value) is not int or not least <= value <= most:
        raise InputError(f"{name} must be a whole number from {least:,} to {most:,}, got {value!r}")


def is_number(value: object) -> bool:
    """Whether a value is a single real number, which may be infinite or NaN; booleans are none.

    >>> is_number(0.5), is_number("0.5"), is_number(True)
    (True, False, False)
    """
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
