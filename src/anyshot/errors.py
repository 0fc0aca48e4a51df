"""The two things that can be wrong from outside: what was asked for, and the data it needs."""


class InputError(ValueError):
    """An argument that cannot be right; the message names the argument, its value and what would be right."""


class DataError(RuntimeError):
    """Data that cannot be had; the message says what to do."""
