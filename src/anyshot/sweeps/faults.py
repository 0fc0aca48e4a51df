"""What is wrong with a spec, in one sentence: the key, what would be right, and what was given."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

MOST_SHOWN = 60  # characters of a value
VALUE = "a number, a text, true, false, or a list of these"
KEYS = {
    "": ("experiments", "learners", "seeds", "settings", "grid", "list", "search", "stopping"),
    "list.*": ("experiment", "learner", "settings"),
    "search": ("method", "trials", "space", "seed", "batch"),
    "search.space.*": ("low", "high", "log"),
    "stopping": ("tasks", "factor"),
}
RIGHT = {
    "experiments": 'a list of at least one name of a preset, or "module:function"',
    "learners": "a list of at least one name of a learner",
    "seeds": "a list of at least one whole number from 0 to 4294967295",
    "settings": "a table of settings, such as learner.inner_rate = 0.1",
    "settings.*": VALUE,
    "grid": "a table of at least one setting, such as learner.inner_rate = [0.1, 0.3]",
    "grid.*": f"a list of at least one value, each {VALUE}",
    "list": "one or more tables [[list]]",
    "list.*": "a table with experiment, learner and settings",
    "list.*.experiment": 'the name of a preset, or "module:function"',
    "list.*.learner": "the name of a learner",
    "list.*.settings": "a table of settings, such as learner.inner_rate = 0.1",
    "list.*.settings.*": VALUE,
    "search": "a table with trials and space",
    "search.method": "'random' or 'optuna'",
    "search.trials": "a whole number from 1 to 10,000",
    "search.space": "a table of at least one setting, such as learner.inner_rate = { low = 0.01, high = 0.1 }",
    "search.space.*": "a range such as { low = 0.01, high = 0.1, log = true }, or a list of at least one value",
    "search.space.*.low": "a number",
    "search.space.*.high": "a number",
    "search.space.*.log": "true or false",
    "search.seed": "a whole number from 0 to 4294967295",
    "search.batch": "a whole number from 1 to 1,000",
    "stopping": "a table with tasks, and factor if it is not 3",
    "stopping.tasks": "a list of at least one number of tasks, each a whole number of at least 1",
    "stopping.factor": "a number above 1",
}


def explain_fault(error: ValidationError) -> str:
    """The first thing that is wrong, in one sentence."""
    first = error.errors()[0]
    if first["type"] == "value_error":  # the sentence is our own
        where = ".".join(str(part) for part in first["loc"] if "[" not in str(part))
        return f"{where}: {first['ctx']['error']}" if where else str(first["ctx"]["error"])
    key, pattern, inside = _locate(first["loc"])
    if first["type"] == "extra_forbidden":
        name, known = str(first["loc"][-1]), KEYS[pattern]
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        return f"there is no key {f'{key}.{name}' if key else name}; {hint}there are {', '.join(known)}"
    if first["type"] == "missing":
        return f"{key} is missing; it must be {RIGHT[pattern]}"
    got = _show(first["input"])
    return f"{key} must be {RIGHT[pattern]}, got {f'the entry {got}' if inside else got}"


def _locate(parts: Sequence[int | str]) -> tuple[str, str, bool]:
    """The key that a place belongs to, the pattern that it matches, and whether the place is an entry of its list.

    Behind the key come the places in a list, and names that pydantic gives to the types it has tried.
    """
    key, pattern, rest = "", "", list(parts)
    while rest:
        exact, any_name = (f"{pattern}.{name}" if pattern else name for name in (str(rest[0]), "*"))
        if exact not in RIGHT and any_name not in RIGHT:
            if any(isinstance(part, str) and part in KEYS.get(pattern, ()) for part in rest[1:]):
                rest.pop(0)  # the name of a type, in which the key lies
                continue
            break
        pattern = exact if exact in RIGHT else any_name
        name = str(rest.pop(0))
        key = f"{key}.{name}" if key else name
    return key, pattern, bool(rest) and isinstance(rest[0], int)


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
