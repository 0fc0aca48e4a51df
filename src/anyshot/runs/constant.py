"""What a constant prediction costs in a regression: the yardstick for losses whose scale says nothing by itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from anyshot.adaptation import Loss, squared_error
from anyshot.tasks import TaskSet


def measure_constant(tasks: TaskSet, chosen: Sequence[int], loss: Loss) -> Float[np.ndarray, " chosen"] | None:
    """The mean squared error of the best constant on the test rows of each of these tasks; None for another loss.

    The best constant is the same for all of them: the mean of all their test targets.

    Args:
        tasks: the task set.
        chosen: numbers of tasks.
        loss: of one datapoint.

    >>> pool = np.array([0.0, 1.0, 2.0, 5.0], np.float32)[:, None]
    >>> train, test = np.array([[2], [0]]), np.array([[0, 1], [2, 3]])
    >>> toy = TaskSet("toy", pool, pool, train, test, ("low", "high"))
    >>> print(measure_constant(toy, [0, 1], squared_error))  # the constant is 2
    [2.5 4.5]
    """
    if loss is not squared_error:
        return None
    y = np.asarray(tasks.y, np.float64)
    targets = [y[tasks.rows_of(task, "test")].reshape(tasks.counts("test")[task], -1) for task in chosen]
    best = np.concatenate(targets).mean(axis=0)
    return np.array([np.mean((own - best) ** 2) for own in targets])
