"""An offline experiment, ready to run: meta-training, then the test on unseen tasks."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from anyshot.devices import replicate
from anyshot.errors import DivergedError
from anyshot.offline.evaluation import Scores, evaluate, some_rounds
from anyshot.offline.loop import OfflineLoop, OfflineState, Trained
from anyshot.offline.protocol import OfflineProtocol
from anyshot.offline.split import Draw, Split, split_for
from anyshot.runs.constant import measure_constant
from anyshot.runs.drive import Observe, Run, advise, compile_with_options, run_compiled
from anyshot.runs.experiment import Experiment
from anyshot.runs.folder import RunFolder
from anyshot.runs.hosts import NoFolder
from anyshot.runs.interrupts import catch_interrupts
from anyshot.runs.online import learned_rates, training_metrics
from anyshot.runs.records import Event, OfflineSummary, Score, Trial
from anyshot.tasks import TaskSet


class OfflineJob:
    """Runs meta-training and the test.

    Args:
        experiment: with an `OfflineProtocol`.
    """

    learns_at_once = True

    def __init__(self, experiment: Experiment) -> None:
        assert isinstance(experiment.protocol, OfflineProtocol)
        assert isinstance(experiment.tasks, TaskSet)
        self.tasks, self.protocol, self.seed = experiment.tasks, experiment.protocol, experiment.seed
        self.loop = OfflineLoop(experiment.learner, self.protocol, experiment.loss, experiment.classification)
        start, run, test = jax.random.split(jax.random.key(experiment.seed, impl="threefry2x32"), 3)
        self.keys = {"start": start, "run": run, "test": test}

    def load_data(self) -> Split:
        """The tasks to train, to validate and to test on, on the device, where they share the examples."""
        return split_for(replicate(self.tasks.on_device()), self.protocol, self.seed)

    def make_run(self, split: Split) -> Run:
        """A function that runs up to so many rounds."""
        return run_compiled(self, split)

    def make_recorder(self, split: Split) -> OfflineRecorder:
        """Makes events of what the loop finds."""
        return OfflineRecorder(self.protocol)

    def is_over(self, state: OfflineState) -> bool:
        """Whether training has ended."""
        return bool(self.loop.ended(state))

    def tasks_ended(self, state: OfflineState) -> int:
        """None: tasks do not come one after another."""
        return 0

    def rounds_until(self, found: Trained, count: int, tasks: int) -> int:
        """All of them, likewise."""
        return count

    def learner_state(self, state: OfflineState) -> Any:
        """The state that did best on the validation tasks."""
        return state.best

    def finish(
        self,
        state: OfflineState,
        split: Split,
        recorder: OfflineRecorder,
        folder: RunFolder | NoFolder,
        observe: Observe,
    ) -> None:
        """Test the state that was kept, and write the summary."""
        observe("testing", split.test.num_tasks)
        with catch_interrupts() as interrupted:

            def count_episodes(episodes: int) -> None:
                observe("tested", episodes)
                if interrupted:
                    raise KeyboardInterrupt

            tests, key = Draw.test(split.test, self.protocol), self.keys["test"]
            scores = evaluate(self.loop, tests, state.best, key, count_episodes, compiled_rounds())
        if not np.all(np.isfinite(scores.loss)):
            raise DivergedError(
                f"a loss was not finite in the test of {folder.path}; in a new folder {advise(self.loop.learner)}"
            )
        constant = measure_constant(split.test, range(split.test.num_tasks), self.loop.loss)
        events = list_scores(scores, split.test.task_names, None if constant is None else float(constant.mean()))
        folder.append(events)
        for event in events:
            observe("event", event)
        steps, best = (self.protocol.steps_per_trial * int(number) for number in (state.rounds, state.best_round))
        folder.finish(functools.partial(OfflineSummary, steps=steps, best_step=best, tests=events))


class OfflineRecorder:
    """Turns the records of the loop into events.

    Args:
        protocol: the rules.
    """

    def __init__(self, protocol: OfflineProtocol) -> None:
        self.protocol = protocol

    def record(self, found: Trained, count: int) -> list[Event]:
        """The events of the first `count` records."""
        return [self._event(found, number) for number in range(count)]

    def state_dict(self) -> dict[str, Any]:
        """Nothing: a trial does not depend on those before it."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """There is nothing to load."""

    def _event(self, found: Trained, number: int) -> Trial:
        return Trial(
            step=int(found.round[number]) * self.protocol.steps_per_trial,
            accuracy=_finite_list(found.accuracy[number]),
            loss=_finite_list(found.loss[number]),
            score=float(found.score[number]) if np.isfinite(found.score[number]) else None,
            better=bool(found.better[number]),
            ended=bool(found.ended[number]),
            train=training_metrics(found.metrics, number),
            rates=learned_rates(found.rates, number, with_alpha=True),
        )


def list_scores(scores: Scores, task_names: Sequence[str], constant_loss: float | None) -> list[Score]:
    """The events of the test: one for each number of shots.

    Args:
        scores: what was found.
        task_names: of the test tasks.
        constant_loss: of a constant prediction on them.
    """

    def by_task(values: Any, place: int) -> dict[str, float] | None:
        return None if values is None else dict(zip(task_names, map(float, values[:, place]), strict=True))

    columns = (scores.accuracy, scores.accuracy_error, scores.loss, scores.loss_error)
    events = []
    for place, shots in enumerate(scores.shots):
        accuracy, accuracy_error, loss, loss_error = (float(column[place]) for column in columns)
        known = np.isfinite(accuracy)  # not in a regression
        events.append(
            Score(
                shots=shots,
                loss=loss,
                loss_error=loss_error,
                accuracy=accuracy if known else None,
                accuracy_error=accuracy_error if known else None,
                episodes=scores.episodes,
                constant_loss=constant_loss,
                task_loss=by_task(scores.task_loss, place),
                task_accuracy=by_task(scores.task_accuracy, place) if known else None,
            )
        )
    return events


@functools.cache
def compiled_rounds() -> Any:
    """Rounds of a test, compiled once in a process for all runs that differ only in their seed."""
    return compile_with_options(some_rounds)


def _finite_list(values: Any) -> list[float] | None:
    return [float(value) for value in values] if np.all(np.isfinite(values)) else None
