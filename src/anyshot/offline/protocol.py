"""The rules of the offline setting: the training data, when training stops, the test (paper, section 6.1, app. D)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from anyshot.errors import InputError
from anyshot.limits import MOST_SIZE, MOST_STEPS, MOST_STEPS_AT_ONCE, check_whole, is_number


@dataclass(frozen=True)
class OfflineProtocol:
    """The rules of an offline experiment.

    Attributes:
        steps: the largest number of meta-updates.
        steps_per_trial: meta-updates between two trials on the validation tasks.
        patience: the number of trials without a better score after which training stops.
        tasks_per_update: tasks in a meta-batch.
        min_shots: in training, K is uniform over min_shots..max_shots. With min_shots = max_shots this is classic MAML.
        max_shots: M, the largest number of shots in training.
        zero_shot_share: the share of training episodes that have no shot; the others have 1..max_shots. None means that
            zero shots are as likely as any other number.
        queries: datapoints that validate an episode in training.
        ways: the number of classes in an episode, for a task set of classes. Shots, queries and test queries are then
            counted for each class. None for a task set whose tasks have labels of their own.
        order: the seed of a random order of the tasks, which decides what is trained and tested on. A number is the
            same order for all runs; "seed" is the run's own seed. None means the order of the task set.
        train_tasks: the number of tasks for training, the first ones; None means as many as the task set says.
        validation_tasks: how many of these, the last ones, are set aside to decide when to stop. With 0, training uses
            all steps, and its final state is tested. With "all", all of them train, and their test rows, which are not
            trained on, decide.
        validation_episodes: the smallest number of episodes in a trial, for each number of shots.
        test_tasks: the number of test tasks, which follow the training tasks; None means all the others.
        test_shots: the numbers of shots to test. One above max_shots is adapted to with the step size of max_shots.
        test_queries: datapoints to test on in an episode.
        standard_error: the test goes on until the standard error of each accuracy is at most this, in percentage
            points. In a regression, the standard error of each loss must be at most this percentage of the loss.
        max_episodes: the largest number of test episodes for each number of shots.
    """

    kind: ClassVar[str] = "offline"

    steps: int = 20_000
    steps_per_trial: int = 500
    patience: int = 10
    tasks_per_update: int = 25
    min_shots: int = 0
    max_shots: int = 20
    zero_shot_share: float | None = None
    queries: int = 20
    ways: int | None = None
    order: int | Literal["seed"] | None = None
    train_tasks: int | None = None
    validation_tasks: int | Literal["all"] = 4
    validation_episodes: int = 200
    test_tasks: int | None = None
    test_shots: tuple[int, ...] = (0, 1, 10, 20)
    test_queries: int = 50
    standard_error: float = 0.3
    max_episodes: int = 20_000

    def __post_init__(self) -> None:
        check_whole("steps_per_trial", self.steps_per_trial, 1, MOST_STEPS_AT_ONCE)
        for name in ("steps", "patience", "validation_episodes", "max_episodes"):
            check_whole(name, getattr(self, name), 1, MOST_STEPS)
        for name in ("tasks_per_update", "max_shots", "queries", "test_queries"):
            check_whole(name, getattr(self, name), 1, MOST_SIZE)
        check_whole("min_shots", self.min_shots, 0, MOST_SIZE)
        _check_whole_or("validation_tasks", self.validation_tasks, "all")
        if self.order is not None:
            _check_whole_or("order", self.order, "seed")
        for name, smallest in {"ways": 2, "train_tasks": 1, "test_tasks": 1}.items():
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), smallest, MOST_STEPS)
        if self.steps % self.steps_per_trial:
            raise InputError(f"steps must be a multiple of steps_per_trial {self.steps_per_trial}, got {self.steps}")
        if self.min_shots > self.max_shots:
            raise InputError(f"min_shots must be at most max_shots {self.max_shots}, got {self.min_shots}")
        if self.zero_shot_share is not None:
            if not (is_number(self.zero_shot_share) and 0 <= self.zero_shot_share < 1):
                raise InputError(
                    f"zero_shot_share must be a number of at least 0 and below 1, or None, got {self.zero_shot_share!r}"
                )
            if self.min_shots:
                raise InputError(
                    f"zero_shot_share needs min_shots 0, got zero_shot_share {self.zero_shot_share} and min_shots "
                    f"{self.min_shots}"
                )
        if not isinstance(self.test_shots, tuple) or not self.test_shots:
            raise InputError(
                f"test_shots must be the numbers of shots to test, such as (0, 1, 10, 20), got {self.test_shots!r}"
            )
        for shots in self.test_shots:
            check_whole("test_shots", shots, 0, MOST_SIZE)
        if list(self.test_shots) != sorted(set(self.test_shots)):
            raise InputError(f"test_shots must be rising, each number once, got {self.test_shots}")
        if not (is_number(self.standard_error) and 0 < self.standard_error < math.inf):
            raise InputError(f"standard_error must be a positive, finite number, got {self.standard_error!r}")

    @property
    def most_shots(self) -> int:
        """M, counted in datapoints. With ways, a shot is one datapoint of each class."""
        return self.max_shots * (self.ways or 1)

    @property
    def rounds(self) -> int:
        """The largest number of rounds. Each is `steps_per_trial` meta-updates and a trial."""
        return self.steps // self.steps_per_trial

    @property
    def validates(self) -> bool:
        """Whether there is something to validate on, so that training may stop before all steps are used."""
        return self.validation_tasks != 0


def _check_whole_or(name: str, value: object, word: str) -> None:
    """Refuse what is neither a whole number in the range of steps nor this word."""
    if value != word and (type(value) is not int or not 0 <= value <= MOST_STEPS):
        raise InputError(f"{name} must be a whole number from 0 to {MOST_STEPS:,}, or {word!r}, got {value!r}")
