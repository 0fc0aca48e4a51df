"""The ledger: what every task cost in labels and losses, from the events of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class TaskEntry:
    """One task's account.

    Attributes:
        position: in the stream.
        name: of the task.
        labels: received, test labels not counted.
        labels_until_mastered: received when it first met the threshold; None if it never did.
        steps: spent on it.
        loss: sum over its evaluations, zero shots included: its share of the paper's regret.
        evaluations: how many.
        zero_shot_loss: on arrival.
        zero_shot_accuracy: on arrival; None in a regression.
        last_loss: at its last evaluation.
        last_accuracy: at its last evaluation; None in a regression.
        mastered: whether it ended proficient (or, without advancement, ever was).
        ended: whether it has ended at all.
    """

    position: int
    name: str
    labels: int
    labels_until_mastered: int | None
    steps: int
    loss: float
    evaluations: int
    zero_shot_loss: float
    zero_shot_accuracy: float | None
    last_loss: float
    last_accuracy: float | None
    mastered: bool
    ended: bool


@dataclass(frozen=True)
class Ledger:
    """All tasks' accounts and their sums.

    Attributes:
        tasks: one entry each, in the order they came.
        cumulative_loss: the paper's regret: test losses summed over all evaluations of all tasks.
        labels: received in all.
        test_labels: used for evaluation only, counted apart.
        steps: in all, pretraining not counted.
        mastered: tasks.
        evaluations: in all.
    """

    tasks: tuple[TaskEntry, ...]
    cumulative_loss: float
    labels: int
    test_labels: int
    steps: int
    mastered: int
    evaluations: int

    @classmethod
    def of(cls, events: Sequence[dict[str, Any]], test: int) -> Ledger:
        """The ledger of a run's events; `test` is the number of test examples of a task."""
        by_position: dict[int, list[dict[str, Any]]] = {}
        for event in events:
            if "position" in event:
                by_position.setdefault(event["position"], []).append(event)
        tasks = tuple(_entry(position, evaluations) for position, evaluations in by_position.items())
        return cls(
            tasks,
            cumulative_loss=_sum(event["loss"] for one in by_position.values() for event in one),
            labels=sum(task.labels for task in tasks),
            test_labels=test * len(tasks),
            steps=sum(task.steps for task in tasks),
            mastered=sum(task.mastered for task in tasks),
            evaluations=sum(task.evaluations for task in tasks),
        )

    def totals(self) -> dict[str, Any]:
        """The sums, without the tasks."""
        return {name: value for name, value in asdict(self).items() if name != "tasks"}


def _entry(position: int, evaluations: list[dict[str, Any]]) -> TaskEntry:
    first, last = evaluations[0], evaluations[-1]
    mastered = next((event for event in evaluations if event["mastered"]), None)
    return TaskEntry(
        position=position,
        name=first["task"],
        labels=last["labels"],
        labels_until_mastered=mastered["labels"] if mastered else None,
        steps=last["step"],
        loss=_sum(event["loss"] for event in evaluations),
        evaluations=len(evaluations),
        zero_shot_loss=first["loss"],
        zero_shot_accuracy=first.get("accuracy"),
        last_loss=last["loss"],
        last_accuracy=last.get("accuracy"),
        mastered=mastered is not None,
        ended=last["ended"],
    )


def _sum(numbers: Any) -> float:
    total = 0.0  # in the order of the events: the same bits every time
    for number in numbers:
        total += number
    return total
