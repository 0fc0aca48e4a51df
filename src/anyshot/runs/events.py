"""What is written to the event log: one line per evaluation, the same bytes whenever the run is repeated."""

from __future__ import annotations

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

    def summary(self) -> dict[str, Any]:
        """The sums at the end of a run."""
        return {"tasks": len(self.names), "total_loss": self.total_loss, "total_labels": self.total_labels}

    def _event(self, records: Record, number: int) -> dict[str, Any]:
        metrics = {f"train_{name}": _number(values[number]) for name, values in records.metrics.items()}
        metrics = {name: value for name, value in metrics.items() if value is not None}  # none before the first update
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
            "loss": _number(loss),
            "accuracy": _number(records.accuracy[number]),
            "mastered": bool(records.mastered[number]),
            "ended": ended,
            "total_loss": _number(self.total_loss),
            "total_labels": self.total_labels + labels,
            **metrics,
        }
        if event["accuracy"] is None:
            del event["accuracy"]
        for name, values in records.rates.items():
            if values[number].ndim == 0:
                event[name] = _number(values[number])
            elif ended:
                event[name] = [_number(value) for value in values[number]]
        self.total_labels += labels if ended else 0
        return event


def _number(value: Any) -> float | None:
    """A float that JSON can hold, else None."""
    return float(value) if np.isfinite(value) else None
