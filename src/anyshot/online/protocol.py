"""The rules of the online setting: when data arrives, what is drawn, when a task is done (paper, section 3, app. E)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from anyshot.errors import InputError


@dataclass(frozen=True)
class Protocol:
    """One experiment's rules; the defaults are the paper's for Rainbow MNIST with automatic advancement.

    Attributes:
        arrive: datapoints that arrive at once; g(s) = arrive * (1 + s // every).
        every: steps from one arrival to the next.
        updates: N_meta, (meta-)updates in a step.
        max_steps: steps after which a task is given up.
        advance: whether a task ends as soon as it is mastered.
        threshold: C: a task is mastered at an accuracy of at least, or a loss of at most this.
        measure: which of the two.
        max_shots: M, the most shots to adapt on.
        points_per_shot: n points received are evaluated with n / points_per_shot shots (at most M).
        tasks_per_update: tasks in a meta-batch.
        validation: datapoints to validate on in an episode, at most.
        overlap: whether shots and validation points are drawn independently of each other (the paper's M(j) =
            min{M, n}) instead of disjointly with at most half the points as shots.
        borrow: whether shots are completed by one datapoint of each class they lack, from earlier tasks (the paper's
            scheme for the comparison with ProtoNet).
        batch: datapoints in a flat batch (TOE, A-GEM, ProtoNet's memory).
        memory_per_task: datapoints remembered of an earlier task (A-GEM, ProtoNet).
        test: datapoints to evaluate on, held out, the same at every evaluation of a task.
        tasks: how many of the task set's tasks come, in random order; None: all.
        pretrain_tasks: of these, how many come first with all their data, to pretrain on.
        pretrain_steps: how long to pretrain.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    arrive: int = 4
    every: int = 10
    updates: int = 1
    max_steps: int = 2000
    advance: bool = True
    threshold: float = 0.85
    measure: Literal["accuracy", "loss"] = "accuracy"
    max_shots: int = 20
    points_per_shot: int = 2
    tasks_per_update: int = 25
    validation: int = 20
    overlap: bool = False
    borrow: bool = False
    batch: int = 500
    memory_per_task: int = 50
    test: int = 100
    tasks: int | None = None
    pretrain_tasks: int = 0
    pretrain_steps: int = 0

    def __post_init__(self) -> None:
        least = {"arrive": 1, "every": 1, "updates": 1, "max_steps": 1, "max_shots": 1, "points_per_shot": 1}
        least |= {"tasks_per_update": 1, "validation": 1, "batch": 1, "memory_per_task": 1, "test": 1}
        least |= {"pretrain_tasks": 0, "pretrain_steps": 0}
        for name, value in least.items():
            given = getattr(self, name)
            if isinstance(given, bool) or not isinstance(given, int) or given < value:
                raise InputError(f"{name} must be a whole number of at least {value}, got {given!r}")
        for name in ("advance", "overlap", "borrow"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if isinstance(self.threshold, bool) or not isinstance(self.threshold, (int, float)):
            raise InputError(f"threshold must be a number, got {self.threshold!r}")
        if self.tasks is not None and type(self.tasks) is not int:
            raise InputError(f"tasks must be a whole number, or None for all, got {self.tasks!r}")
        if not math.isfinite(self.threshold):
            raise InputError(f"threshold must be a finite number, got {self.threshold}")
        if self.measure not in ("accuracy", "loss"):
            raise InputError(f"measure must be 'accuracy' or 'loss', got {self.measure!r}")
        if self.measure == "accuracy" and not 0 < self.threshold <= 1:
            raise InputError(f"threshold must be an accuracy above 0 and at most 1, got {self.threshold}")
        if self.tasks is not None and self.tasks <= self.pretrain_tasks:
            raise InputError(f"tasks must be more than pretrain_tasks {self.pretrain_tasks}, got {self.tasks}")
        if bool(self.pretrain_tasks) != bool(self.pretrain_steps):
            raise InputError(
                f"pretraining needs tasks and steps, got pretrain_tasks {self.pretrain_tasks} and pretrain_steps "
                f"{self.pretrain_steps}"
            )

    @property
    def rounds(self) -> int:
        """Arrivals of data in a task, at most; each is followed by `every` steps and an evaluation."""
        return -(-self.max_steps // self.every)

    @property
    def pretrain_rounds(self) -> int:
        """Rounds of `every` steps before the stream begins."""
        return -(-self.pretrain_steps // self.every)
