"""The rules of the offline setting: what is trained on, when training stops, what is tested (paper, 6.1, app. D)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from anyshot.errors import InputError

MOST = 10**9  # of anything: counters are 32 bits wide


@dataclass(frozen=True)
class Plan:
    """One experiment's rules.

    Attributes:
        steps: meta-updates, at most.
        every: after how many steps the model is tried on the validation tasks.
        patience: trials without a better score after which training stops.
        tasks_per_update: tasks in a meta-batch.
        least_shots: in training K ~ U{least_shots..max_shots}; equal to max_shots it is classic MAML with fixed shots.
        max_shots: M, the most shots in training.
        queries: datapoints that validate an episode in training.
        ways: None for tasks with labels of their own; else episodes are of so many classes numbered anew, and shots,
            queries and test queries are counted for each class.
        order: None for the tasks as the task set lists them; a number is the seed of a random order instead, the same
            for all runs.
        train_tasks: how many tasks, the first ones, are for training; None: as the task set has it.
        validation_tasks: how many of these, the last ones, are kept apart to decide when to stop; 0: train for all
            steps, and take what is there at the end.
        validation_episodes: of every number of shots in a trial, at least.
        test_tasks: how many of the tasks behind the training tasks are tested on; None: all.
        test_shots: numbers of shots to test; one above max_shots has the step size of max_shots.
        test_queries: datapoints to test on in an episode.
        standard_error: test episodes are added until each accuracy is as certain as this, in points of 100 (in a
            regression: until the loss is, in percent of itself).
        most_episodes: test episodes of each number of shots, at most, however uncertain.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    steps: int = 20_000
    every: int = 500
    patience: int = 10
    tasks_per_update: int = 25
    least_shots: int = 0
    max_shots: int = 20
    queries: int = 20
    ways: int | None = None
    order: int | None = None
    train_tasks: int | None = None
    validation_tasks: int = 4
    validation_episodes: int = 200
    test_tasks: int | None = None
    test_shots: tuple[int, ...] = (0, 1, 10, 20)
    test_queries: int = 50
    standard_error: float = 0.3
    most_episodes: int = 20_000

    def __post_init__(self) -> None:
        least = dict.fromkeys(("steps", "every", "patience", "tasks_per_update", "max_shots", "queries"), 1)
        least |= {"least_shots": 0, "validation_tasks": 0}
        least |= {"validation_episodes": 1, "test_queries": 1, "most_episodes": 1}
        for name, smallest in least.items():
            _check_whole(name, getattr(self, name), smallest)
        for name, smallest in {"ways": 2, "order": 0, "train_tasks": 1, "test_tasks": 1}.items():
            if getattr(self, name) is not None:
                _check_whole(name, getattr(self, name), smallest)
        if self.steps % self.every:
            raise InputError(f"steps must be a multiple of every {self.every}, got {self.steps}")
        if self.least_shots > self.max_shots:
            raise InputError(f"least_shots must be at most max_shots {self.max_shots}, got {self.least_shots}")
        if not self.test_shots:
            raise InputError("test_shots is empty; give the numbers of shots to test, such as 0 1 10 20")
        for shots in self.test_shots:
            _check_whole("test_shots", shots, 0)
        if list(self.test_shots) != sorted(set(self.test_shots)):
            raise InputError(f"test_shots must be rising, each number once, got {self.test_shots}")
        if not 0 < self.standard_error < math.inf:
            raise InputError(f"standard_error must be a positive, finite number, got {self.standard_error}")

    @property
    def rounds(self) -> int:
        """Trials on the validation tasks, at most."""
        return self.steps // self.every


def _check_whole(name: str, value: object, smallest: int) -> None:
    if type(value) is not int or value < smallest:
        raise InputError(f"{name} must be a whole number of at least {smallest}, got {value!r}")
    if value >= MOST:
        raise InputError(f"{name} must be less than {MOST:,}, got {value}")
