"""Draws from the buffer over tasks whose examples are their row numbers."""

from __future__ import annotations

from typing import Any

from anyshot.online import OnlineProtocol


def draw_rules(**changes: Any) -> OnlineProtocol:
    """A protocol for `tiny_tasks.row_numbers`."""
    rules: dict[str, Any] = {"labels_per_arrival": 2, "steps_per_arrival": 2, "max_steps": 6, "points_per_shot": 1}
    rules |= {"max_shots": 4, "validation_size": 2, "tasks_per_update": 3, "batch_size": 6, "memory_per_task": 2}
    rules |= {"test_size": 4, "measure": "loss", "advance": False}
    return OnlineProtocol(**rules | changes)


def rows_in(shots: Any, *index: int) -> list[Any]:
    """The rows of the datapoints that are present: numbers, or pairs of them."""
    x = shots.x[index][: int(shots.count[index])].astype(int)
    return x.tolist() if x.ndim == 1 else [tuple(pair) for pair in x.tolist()]
