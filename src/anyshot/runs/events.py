"""What is written to the event log: one line per evaluation, the same bytes whenever the run is repeated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from anyshot.online.loop import Record
from anyshot.online.protocol import Protocol


class Events:
    """Turns the records of a run into events, keeping the running sums.

    Args:
        protocol: the rules.
        names: of the tasks, in the order of the stream.
    """

    def __init__(self, protocol: Protocol, names: list[str]):
        self.protocol = protocol
        self.names = names
        self.total_loss = 0.0
        self.total_labels = 0

    def of(self, records: Record, count: int) -> list[dict[str, Any]]:
        """The events of the first `count` records."""
        return [self._event(records, number) for number in range(count)]

    def kept(self) -> dict[str, Any]:
        """What a checkpoint keeps of it."""
        return {"total_loss": self.total_loss, "total_labels": self.total_labels}

    def go_on(self, kept: dict[str, Any]) -> None:
        """Be as it was then."""
        self.total_loss, self.total_labels = kept["total_loss"], kept["total_labels"]

    def summary(self) -> dict[str, Any]:
        """The sums at the end of a run."""
        return {"tasks": len(self.names), "total_loss": self.total_loss, "total_labels": self.total_labels}

    def _event(self, records: Record, number: int) -> dict[str, Any]:
        metrics = training(records.metrics, number)
        if records.pretraining[number]:
            return {"pretraining": True, **metrics}
        position, ended = int(records.position[number]), bool(records.ended[number])
        loss, labels = float(records.loss[number]), int(records.received[number])
        self.total_loss += loss
        event: dict[str, Any] = {
            "position": position,
            "task": self.names[position],
            "step": int(records.round[number]) * self.protocol.every,
            "labels": labels,
            "shots": int(records.shots[number]),
            "loss": finite(loss),
            "accuracy": finite(records.accuracy[number]),
            "mastered": bool(records.mastered[number]),
            "ended": ended,
            "total_loss": finite(self.total_loss),
            "total_labels": self.total_labels + labels,
            **metrics,
        }
        if event["accuracy"] is None:
            del event["accuracy"]
        event |= rates(records.rates, number, with_alpha=ended)
        self.total_labels += labels if ended else 0
        return event


def training(metrics: Mapping[str, Any], number: int) -> dict[str, Any]:
    """What a learner reported of its updates; nothing before the first one."""
    named = {f"train_{name}": finite(values[number]) for name, values in metrics.items()}
    return {name: value for name, value in named.items() if value is not None}


def rates(named: Mapping[str, Any], number: int, with_alpha: bool) -> dict[str, Any]:
    """The learned rates; those for every number of shots only where asked for."""
    event: dict[str, Any] = {}
    for name, values in named.items():
        if values[number].ndim == 0:
            event[name] = finite(values[number])
        elif with_alpha:
            event[name] = [finite(value) for value in values[number]]
    return event


def finite(value: Any) -> float | None:
    """A float that JSON can hold, else None."""
    return float(value) if np.isfinite(value) else None
