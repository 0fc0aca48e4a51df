"""Datapoints by where they stand: the position of the task, and the place in the order in which its labels arrived."""

from __future__ import annotations

import equinox as eqx
from jaxtyping import Array, Int


class Places(eqx.Module):
    """Datapoints that were drawn but not looked up yet. Those behind the first `count` are padding.

    Args:
        position: of the task: one for all datapoints, or one for each.
        place: of each datapoint in its task's order of arrival.
        count: the number of datapoints.
    """

    position: Int[Array, "..."]
    place: Int[Array, "..."]
    count: Int[Array, "..."]


class DrawnPlaces(eqx.Module):
    """What one update needs, as places. What the learner does not want is None.

    Args:
        train: the shots of each episode's task.
        val: the validation points of each episode's task.
        batch: datapoints of everything received.
        current: datapoints of the current task.
        memory: datapoints of earlier tasks.
    """

    train: Places | None = None
    val: Places | None = None
    batch: Places | None = None
    current: Places | None = None
    memory: Places | None = None
