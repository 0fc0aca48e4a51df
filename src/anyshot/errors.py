"""What can go wrong from outside: what was asked for, the data it needs, and a run that leaves the numbers."""


class InputError(ValueError):
    """An argument that cannot be right; the message names the argument, its value and what would be right."""


class DataError(RuntimeError):
    """Data that cannot be had; the message says what to do."""


class RunError(RuntimeError):
    """A run that cannot go on; the message says where it was and what to try."""


class DivergedError(RunError):
    """A loss or a parameter was not finite. The same happens whenever the run is tried again."""
