"""What can go wrong from outside: what was asked for, the data it needs, and a run that leaves the numbers."""


class InputError(ValueError):
    """An argument that cannot be right; the message names the argument, its value and what would be right."""


class DataError(RuntimeError):
    """Data that cannot be had; the message says what to do."""


class RunError(RuntimeError):
    """A run that cannot go on; the message says where it was and what to try."""


class DivergedError(RunError):
    """A loss or a parameter was not finite. The same happens whenever the run is tried again."""


def first_line(error: BaseException) -> str:
    """The first line of what an error says, without a full stop, or its kind if it says nothing.

    >>> first_line(ValueError("It is too large.")), first_line(KeyError())
    ('It is too large', 'KeyError')
    """
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
