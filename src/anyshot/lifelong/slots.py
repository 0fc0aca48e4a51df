"""Which output of the network stands for which class of which task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def choose_slots(names: Iterable[str], taken: Mapping[str, int], known: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Choose an output for each new class of a task.

    A class that other tasks have too keeps the output it has there, so that what was learned about it is used at once.
    Any other class takes the first output that the task does not use: tasks whose classes have different names share
    outputs, as in few-shot learning with a fixed number of ways.

    Args:
        names: the new classes.
        taken: the outputs of the classes that the task has already.
        known: the outputs of the classes of each other task, the most recent last.

    >>> choose_slots(["bad", "new"], {"ok": 0}, [{"ok": 0, "bad": 1}])
    {'bad': 1, 'new': 2}
    >>> choose_slots(["cat", "dog"], {}, [{"ok": 0, "bad": 1}])
    {'cat': 0, 'dog': 1}
    """
    elsewhere: dict[str, int] = {}
    for slots in known:
        elsewhere.update(slots)
    used = set(taken.values())
    chosen: dict[str, int] = {}
    names = list(names)
    for name in names:  # classes that are known come first, so that a new one does not take their place
        slot = elsewhere.get(name)
        if slot is not None and slot not in used:
            chosen[name] = slot
            used.add(slot)
    free = (slot for slot in range(len(used) + len(names) + 1) if slot not in used)
    chosen |= {name: next(free) for name in names if name not in chosen}
    return {name: chosen[name] for name in names}


def count_outputs(slots: Sequence[Mapping[str, int]], least: int = 2) -> int:
    """The number of outputs that hold all slots: a power of two, so that it seldom grows.

    >>> count_outputs([{"a": 0, "b": 4}])
    8
    """
    most = max((slot + 1 for one in slots for slot in one.values()), default=least)
    return 1 << (max(most, least) - 1).bit_length()
