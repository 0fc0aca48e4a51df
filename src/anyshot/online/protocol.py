"""The rules of the online setting: when data arrives, what is drawn, when a task ends (paper, section 3, app. E)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from anyshot.errors import InputError
from anyshot.limits import MOST_SIZE, MOST_STEPS, MOST_STEPS_AT_ONCE, check_whole


@dataclass(frozen=True)
class OnlineProtocol:
    """The rules of an online experiment. The defaults are the paper's for Rainbow MNIST with automatic advancement.

    Attributes:
        labels_per_arrival: datapoints that arrive at once.
        steps_per_arrival: steps from one arrival to the next. The paper's g(s) is
            labels_per_arrival * (1 + s // steps_per_arrival).
        updates_per_step: N_meta, the number of (meta-)updates in a step.
        max_steps: steps after which a task ends even if it is not mastered.
        advance: whether a task ends as soon as it is mastered.
        threshold: C. A task is mastered when its accuracy is at least, or its loss at most, this number.
        measure: which of the two the threshold is for: "accuracy" or "loss".
        max_shots: M, the largest number of shots to adapt to.
        points_per_shot: after n points have arrived, n / points_per_shot shots (at most M) are used in an evaluation.
        tasks_per_update: tasks in a meta-batch.
        validation_size: the largest number of datapoints to validate on in an episode.
        overlap: whether shots and validation points are drawn independently of each other, with up to min{M, n} shots
            of n points (the paper's M(j)). By default they are different points, with at most n / 2 shots.
        borrow: whether each class without a shot is given one datapoint from earlier tasks (the paper's scheme for the
            comparison with ProtoNet).
        batch_size: datapoints in a batch of several tasks (TOE, A-GEM, ProtoNet's memory).
        memory_per_task: datapoints that are remembered of each earlier task (A-GEM, ProtoNet).
        test_size: datapoints to evaluate on. They are never used for learning.
        fresh_test: whether each evaluation draws test_size of the task's test data anew. By default they are drawn
            once, and are the same at each evaluation of a task.
        num_tasks: the number of tasks in the stream; None means all tasks of the task set.
        shuffle_tasks: whether the tasks come in random order, or in the order of the task set.
        pretrain_tasks: the number of tasks at the beginning of the stream that are there with all their data, for
            pretraining.
        pretrain_steps: steps of pretraining.
    """

    kind: ClassVar[str] = "online"

    labels_per_arrival: int = 4
    steps_per_arrival: int = 10
    updates_per_step: int = 1
    max_steps: int = 2000
    advance: bool = True
    threshold: float = 0.85
    measure: Literal["accuracy", "loss"] = "accuracy"
    max_shots: int = 20
    points_per_shot: int = 2
    tasks_per_update: int = 25
    validation_size: int = 20
    overlap: bool = False
    borrow: bool = False
    batch_size: int = 500
    memory_per_task: int = 50
    test_size: int = 100
    fresh_test: bool = False
    num_tasks: int | None = None
    shuffle_tasks: bool = True
    pretrain_tasks: int = 0
    pretrain_steps: int = 0

    def __post_init__(self) -> None:
        for name in ("labels_per_arrival", "steps_per_arrival", "updates_per_step", "max_shots", "points_per_shot"):
            check_whole(name, getattr(self, name), 1, MOST_SIZE)
        for name in ("tasks_per_update", "validation_size", "batch_size", "memory_per_task", "test_size"):
            check_whole(name, getattr(self, name), 1, MOST_SIZE)
        if self.steps_per_arrival * self.updates_per_step > MOST_STEPS_AT_ONCE:
            raise InputError(
                f"steps_per_arrival times updates_per_step must be at most {MOST_STEPS_AT_ONCE:,}, got "
                f"{self.steps_per_arrival} times {self.updates_per_step}"
            )
        check_whole("max_steps", self.max_steps, 1, MOST_STEPS)
        check_whole("pretrain_tasks", self.pretrain_tasks, 0, MOST_STEPS)
        check_whole("pretrain_steps", self.pretrain_steps, 0, MOST_STEPS)
        for name in ("advance", "overlap", "borrow", "fresh_test", "shuffle_tasks"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if isinstance(self.threshold, bool) or not isinstance(self.threshold, (int, float)):
            raise InputError(f"threshold must be a number, got {self.threshold!r}")
        if not math.isfinite(self.threshold):
            raise InputError(f"threshold must be a finite number, got {self.threshold}")
        if self.measure not in ("accuracy", "loss"):
            raise InputError(f"measure must be 'accuracy' or 'loss', got {self.measure!r}")
        if self.measure == "accuracy" and not 0 < self.threshold <= 1:
            raise InputError(f"threshold must be an accuracy above 0 and at most 1, got {self.threshold}")
        if self.num_tasks is not None:
            check_whole("num_tasks", self.num_tasks, 1, MOST_STEPS)
            if self.num_tasks <= self.pretrain_tasks:
                raise InputError(
                    f"num_tasks must be more than pretrain_tasks {self.pretrain_tasks}, got {self.num_tasks}"
                )
        if bool(self.pretrain_tasks) != bool(self.pretrain_steps):
            raise InputError(
                f"pretraining needs tasks and steps, got pretrain_tasks {self.pretrain_tasks} and pretrain_steps "
                f"{self.pretrain_steps}"
            )

    @property
    def ways(self) -> None:
        """None: online, the labels of a task are those of the task set."""

    @property
    def most_shots(self) -> int:
        """M, counted in datapoints."""
        return self.max_shots

    @property
    def rounds(self) -> int:
        """The largest number of arrivals of data in a task. Each is followed by steps and an evaluation."""
        return -(-self.max_steps // self.steps_per_arrival)

    @property
    def pretrain_rounds(self) -> int:
        """Rounds of pretraining, of `steps_per_arrival` steps each."""
        return -(-self.pretrain_steps // self.steps_per_arrival)
