"""A run on several hosts: the first one decides and keeps the folder, the others compute along.

All hosts run the same program (`jax.distributed`), so each call of a compiled function must be the same on all. What
depends on the clock, on a signal or on a file is decided by the first host and told to the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
from jax.experimental import multihost_utils

from anyshot.runs.checkpoints import Checkpoint
from anyshot.runs.records import Event

Tree = TypeVar("Tree")


def is_first_host() -> bool:
    """Whether this process keeps the folder; true if there is only one."""
    return jax.process_index() == 0


def agree(*numbers: int) -> tuple[int, ...]:
    """The numbers of the first host.

    >>> agree(3, True)
    (3, 1)
    """
    if jax.process_count() == 1:
        return tuple(int(number) for number in numbers)
    told = multihost_utils.broadcast_one_to_all(np.asarray(numbers, np.int32))
    return tuple(int(number) for number in np.asarray(told))


def agree_on_state(state: Tree) -> Tree:
    """The arrays of the first host; they must have the same shapes on all."""
    if jax.process_count() == 1:
        return state
    arrays, rest = eqx.partition(state, eqx.is_array)
    told: Tree = eqx.combine(multihost_utils.broadcast_one_to_all(jax.tree.map(np.asarray, arrays)), rest)
    return told


class NoFolder:
    """Takes the place of a `RunFolder` on all hosts but the first: nothing is read or written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.finished = False

    def resume(self) -> Checkpoint | None:
        """None: the first host tells its state."""
        return None

    def append(self, events: Sequence[Event]) -> None:
        """Nothing."""

    def save(self, number: int, arrays: dict[str, np.ndarray], info: dict[str, Any]) -> None:
        """Nothing."""

    def finish(self, make_summary: Any) -> None:
        """Nothing."""
