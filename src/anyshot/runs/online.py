"""An online experiment, ready to run: the loop of algorithm 1, and its events."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from anyshot.devices import on_sharing_devices, replicate
from anyshot.errors import DataError
from anyshot.online import OnlineLoop, OnlineProtocol, OnlineState, Record, Stream, make_stream
from anyshot.online.host_rounds import HostRounds
from anyshot.online.host_stream import HostStream
from anyshot.runs.constant import measure_constant
from anyshot.runs.drive import Observe, Run, run_compiled
from anyshot.runs.experiment import Experiment
from anyshot.runs.folder import RunFolder
from anyshot.runs.hosts import NoFolder
from anyshot.runs.records import Evaluation, Event, OnlineSummary, Pretraining
from anyshot.tasks import StoredTasks

SUMS = {"total_loss": float, "total_labels": int, "mastered": int, "task_mastered": bool}


class OnlineJob:
    """Runs the online loop.

    Args:
        experiment: with an `OnlineProtocol`.
    """

    def __init__(self, experiment: Experiment) -> None:
        assert isinstance(experiment.protocol, OnlineProtocol)
        self.tasks, self.protocol = experiment.tasks, experiment.protocol
        self.loop = OnlineLoop(experiment.learner, self.protocol, experiment.loss, experiment.classification)
        stream, start, run = jax.random.split(jax.random.key(experiment.seed, impl="threefry2x32"), 3)
        self.keys = {"stream": stream, "start": start, "run": run}
        self.learns_at_once = self.protocol.pretrain_rounds > 0

    def load_data(self) -> Any:
        """The stream: a `Stream` on the device, or a `HostStream` if the tasks are stored."""
        if isinstance(self.tasks, StoredTasks):
            return HostStream(self.tasks, self.protocol, self.keys["stream"], on_sharing_devices())
        return replicate(make_stream(self.tasks.on_device(), self.protocol, self.keys["stream"]))

    def make_run(self, stream: Stream | HostStream) -> Run:
        """A function that runs up to so many rounds."""
        if isinstance(stream, HostStream):
            return HostRounds(self.loop, stream, self.keys["run"])
        return run_compiled(self, stream)

    def make_recorder(self, stream: Stream | HostStream) -> OnlineRecorder:
        """Makes events of what the loop finds."""
        order, constant = np.asarray(stream.order), None
        if not isinstance(self.tasks, StoredTasks):
            constant = measure_constant(self.tasks, order.tolist(), self.loop.loss)
        return OnlineRecorder(self.protocol, lambda position: self.tasks.task_names[int(order[position])], constant)

    def is_over(self, state: OnlineState) -> bool:
        """Whether the last task has ended."""
        return int(state.position) >= (self.protocol.num_tasks or self.tasks.num_tasks)

    def tasks_ended(self, state: OnlineState) -> int:
        """How many tasks have ended behind those of pretraining."""
        return int(state.position) - self.protocol.pretrain_tasks

    def rounds_until(self, found: Record, count: int, tasks: int) -> int:
        """Of the first `count` rounds those until so many tasks have ended; all if they have not."""
        last = np.asarray(found.ended & (found.position == self.protocol.pretrain_tasks + tasks - 1))[:count]
        return int(np.argmax(last)) + 1 if last.any() else count

    def learner_state(self, state: OnlineState) -> Any:
        """The learner's state now."""
        return state.learner

    def finish(
        self,
        state: OnlineState,
        stream: Stream | HostStream,
        recorder: OnlineRecorder,
        folder: RunFolder | NoFolder,
        observe: Observe,
    ) -> None:
        """Write the summary."""
        folder.finish(
            functools.partial(
                OnlineSummary,
                tasks=stream.positions - self.protocol.pretrain_tasks,
                mastered=recorder.mastered,
                total_loss=recorder.total_loss,
                total_labels=recorder.total_labels,
            )
        )


class OnlineRecorder:
    """Turns the records of the loop into events, and keeps the running sums.

    Args:
        protocol: the rules.
        name_task: gives the name of the task at a position of the stream.
        constant_losses: of a constant prediction on each task of the stream; None if there are none.
    """

    def __init__(
        self,
        protocol: OnlineProtocol,
        name_task: Callable[[int], str],
        constant_losses: Float[np.ndarray, " tasks"] | None,
    ) -> None:
        self.protocol, self.name_task, self.constant_losses = protocol, name_task, constant_losses
        self.total_loss, self.total_labels, self.mastered = 0.0, 0, 0
        self.task_mastered = False  # the current one

    def record(self, found: Record, count: int) -> list[Event]:
        """The events of the first `count` records."""
        return [self._event(found, number) for number in range(count)]

    def state_dict(self) -> dict[str, Any]:
        """The sums so far."""
        return {name: getattr(self, name) for name in SUMS}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from the sums that a checkpoint kept."""
        for name, kind in SUMS.items():
            if type(state.get(name)) is not kind:
                raise DataError(
                    f"the checkpoint has {name} {state.get(name)!r}, which no run writes; remove the checkpoint"
                )
            setattr(self, name, state[name])

    def _event(self, found: Record, number: int) -> Event:
        train = training_metrics(found.metrics, number)
        if found.pretraining[number]:
            return Pretraining(train=train)
        position, ended = int(found.position[number]), bool(found.ended[number])
        loss, labels, mastered = float(found.loss[number]), int(found.received[number]), bool(found.mastered[number])
        accuracy = float(found.accuracy[number])
        self.total_loss += loss
        event = Evaluation(
            position=position,
            task=self.name_task(position),
            step=int(found.round[number]) * self.protocol.steps_per_arrival,
            labels=labels,
            shots=int(found.shots[number]),
            loss=loss,
            accuracy=accuracy if np.isfinite(accuracy) else None,
            constant_loss=None if self.constant_losses is None else float(self.constant_losses[position]),
            mastered=mastered,
            ended=ended,
            total_loss=self.total_loss,
            total_labels=self.total_labels + labels,
            train=train,
            rates=learned_rates(found.rates, number, with_alpha=ended),
        )
        self._count(labels, mastered, ended)
        return event

    def _count(self, labels: int, mastered: bool, ended: bool) -> None:
        self.task_mastered = self.task_mastered or mastered
        if ended:
            self.total_labels += labels
            self.mastered += self.task_mastered
            self.task_mastered = False


def training_metrics(metrics: Mapping[str, Any], number: int) -> dict[str, float]:
    """What a learner reported of its updates in one round; nothing before the first update."""
    named = {name: float(values[number]) for name, values in metrics.items()}
    return {name: value for name, value in named.items() if np.isfinite(value)}


def learned_rates(rates: Mapping[str, Any], number: int, with_alpha: bool) -> dict[str, float | list[float]]:
    """The learned rates in one round; those with a value for each number of shots only `with_alpha`."""
    found: dict[str, float | list[float]] = {}
    for name, values in rates.items():
        if values[number].ndim == 0:
            found[name] = float(values[number])
        elif with_alpha:
            found[name] = [float(value) for value in values[number]]
    return found
