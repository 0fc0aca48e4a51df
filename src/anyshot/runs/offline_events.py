"""What an offline run writes to its event log: a line for each trial, and in the end one for each number of shots."""

from __future__ import annotations

from typing import Any

from anyshot.offline.evaluation import Scores
from anyshot.offline.loop import Trained
from anyshot.offline.plan import Plan
from anyshot.runs.events import finite, rates, training


class OfflineEvents:
    """Turns the records of a run into events.

    Args:
        plan: the rules.
    """

    def __init__(self, plan: Plan):
        self.plan = plan

    def of(self, records: Trained, count: int) -> list[dict[str, Any]]:
        """The events of the first `count` records."""
        return [self._event(records, number) for number in range(count)]

    def kept(self) -> dict[str, Any]:
        """What a checkpoint keeps of it: nothing, a trial needs nothing of those before it."""
        return {}

    def go_on(self, kept: dict[str, Any]) -> None:
        """Be as it was then."""

    def _event(self, records: Trained, number: int) -> dict[str, Any]:
        event: dict[str, Any] = {
            "step": int(records.round[number]) * self.plan.every,
            "validation_accuracy": [finite(value) for value in records.accuracy[number]],
            "validation_loss": [finite(value) for value in records.loss[number]],
            "score": finite(records.score[number]),
            "better": bool(records.better[number]),
            "ended": bool(records.ended[number]),
        }
        unknown = [None] * len(self.plan.test_shots)
        event |= training(records.metrics, number) | rates(records.rates, number, with_alpha=True)
        return {name: value for name, value in event.items() if value not in (None, unknown)}


def tested(scores: Scores) -> list[dict[str, Any]]:
    """The events of the test: one for each number of shots."""
    lines = []
    for place, shots in enumerate(scores.shots):
        line = {
            "test": True,
            "shots": shots,
            "accuracy": finite(scores.accuracy[place]),
            "accuracy_error": finite(scores.accuracy_error[place]),
            "loss": finite(scores.loss[place]),
            "loss_error": finite(scores.loss_error[place]),
            "episodes": scores.episodes,
        }
        lines.append({name: value for name, value in line.items() if value is not None})
    return lines
