"""Driving a compiled loop in a run folder: saved as it goes, resumed exactly, stopped with a sentence."""

from __future__ import annotations

import functools
import platform
import time
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import ValidationError

from anyshot.devices import compiler_options, replicate
from anyshot.errors import DivergedError
from anyshot.learners import Learner
from anyshot.runs.checkpoints import list_checkpoints
from anyshot.runs.folder import RunFolder
from anyshot.runs.hosts import NoFolder, agree, agree_on_state
from anyshot.runs.interrupts import catch_interrupts
from anyshot.runs.reading import CHECKPOINTS_FOLDER
from anyshot.runs.records import EVENTS, Evaluation, Event, Trial
from anyshot.runs.state import restore_state, state_arrays
from anyshot.version import __version__

Run = Callable[[Any, int], tuple[Any, Any, Any]]  # (state, rounds) -> state, what was found, how many rounds it was
Observe = Callable[[str, Any], None]  # called with what happens: ("compiling", None), ("event", Event), ...
# Hyperparameters that make steps smaller.
STEP_SIZES = ("meta_rate", "learning_rate", "inner_rate", "first_rate", "inner_clip")
SECONDS_A_DISPATCH = 2.0  # how long a compiled call should take: long enough to cost nothing, short enough to interrupt


@runtime_checkable
class Recorder(Protocol):
    """Turns what a compiled loop found into events."""

    def record(self, found: Any, count: int) -> list[Event]:
        """The events of the first `count` rounds found."""

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps of it."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what a checkpoint kept."""


@runtime_checkable
class Job(Protocol):
    """An experiment ready to run: online (`OnlineJob`) or offline (`OfflineJob`)."""

    loop: Any
    keys: dict[str, Any]
    learns_at_once: bool  # whether the first round has updates

    def load_data(self) -> Any:
        """What is learned from."""

    def make_run(self, data: Any) -> Run:
        """A function that runs up to so many rounds."""

    def make_recorder(self, data: Any) -> Recorder:
        """Turns what the loop finds into events."""

    def is_over(self, state: Any) -> bool:
        """Whether a state is the last one."""

    def tasks_ended(self, state: Any) -> int:
        """How many tasks of the stream have ended; 0 offline."""

    def rounds_until(self, found: Any, count: int, tasks: int) -> int:
        """Of the first `count` rounds those until so many tasks have ended; all if they have not."""

    def learner_state(self, state: Any) -> Any:
        """The learner's state that counts in the end."""

    def finish(self, state: Any, data: Any, recorder: Any, folder: RunFolder | NoFolder, observe: Observe) -> None:
        """What comes after the last round: tests, and the summary."""


def drive(
    job: Job,
    folder: RunFolder | NoFolder,
    checkpoint_seconds: float,
    observe: Observe,
    until_tasks: int | None = None,
) -> Any:
    """Run rounds until the job is over, write the summary, and return the state. The last checkpoint holds it.

    Args:
        job: what to run.
        folder: of the run, opened.
        checkpoint_seconds: how often to save, at least.
        observe: called with what happens.
        until_tasks: pause, without a summary, once so many tasks have ended; None: run to the end.

    Raises:
        DivergedError: a loss or a parameter was not finite; the last good checkpoint is kept, if there is one.
        KeyboardInterrupt: Ctrl-C; the compiled call at hand was finished and saved.
    """
    data = job.load_data()
    recorder = job.make_recorder(data)
    state = start(job, data)
    checkpoint = folder.resume()
    if checkpoint:
        state = restore_state(state, checkpoint.arrays)
        recorder.load_state_dict(checkpoint.info)
    (resumed,) = agree(checkpoint is not None)
    if resumed:
        state = replicate(agree_on_state(state))
    run = job.make_run(data)
    observe("compiling", None)
    started = time.monotonic()
    run(state, 0)  # no rounds, so that only compiling takes time
    observe("compiled", time.monotonic() - started)

    def save() -> None:
        folder.save(int(state.rounds), state_arrays(state), recorder.state_dict())
        observe("saved", int(state.rounds))

    rounds, saved, last = 1, time.monotonic(), _last_event(checkpoint.events if checkpoint else b"")
    with catch_interrupts() as interrupted:
        while not (job.is_over(state) or _is_enough(job, state, until_tasks)):
            started = time.monotonic()
            before, (state, found, done) = state, run(state, rounds)
            enough = done if until_tasks is None else job.rounds_until(found, int(done), until_tasks)
            if enough < done:  # what was computed behind the pause is not part of it
                state, found, done = run(before, int(enough))
            finite = bool(state.finite)
            events = recorder.record(jax.device_get(found), int(done) if finite else int(done) - 1)
            folder.append(events)
            for event in events:
                observe("event", event)
            last = events[-1] if events else last
            if not finite:
                why = _not_finite(last, job.learns_at_once, advise(job.loop.learner))
                has_saved = bool(list_checkpoints(folder.path / CHECKPOINTS_FOLDER))
                kept = (
                    f"the last good checkpoint is in {folder.path}" if has_saved else "no checkpoint was saved before"
                )
                raise DivergedError(f"{why}; {kept}")
            seconds = time.monotonic() - started
            late = time.monotonic() - saved > checkpoint_seconds
            rounds, due, stop = agree(_next_rounds(rounds, seconds, job.loop.dispatch), late, bool(interrupted))
            if stop or due:
                save()
                saved = time.monotonic()
            if stop:
                raise KeyboardInterrupt
        save()
    if job.is_over(state):
        job.finish(state, data, recorder, folder, observe)
    return state


def start(job: Job, data: Any) -> Any:
    """The state before the first round."""
    return replicate(eqx.filter_jit(job.loop.start)(data, job.keys["start"]))


def run_compiled(job: Job, data: Any) -> Run:
    """The function that runs rounds of a job whose data is on the device, in one compiled call."""
    return lambda state, rounds: compiled_run()(job.loop, data, state, job.keys["run"], jnp.asarray(rounds, jnp.int32))


@functools.cache
def compiled_run() -> Any:
    """The `run` of any loop, compiled once in a process for all runs that differ only in their seed."""

    def run(loop: Any, data: Any, state: Any, key: Any, rounds: Any) -> tuple[Any, Any, Any]:
        return loop.run(data, state, key, rounds)

    return compile_with_options(run)


def compile_with_options(function: Callable[..., Any]) -> Any:
    """A function compiled with anyshot's compiler options."""
    return eqx.filter_jit(function, compiler_options=compiler_options())  # type: ignore[call-overload]


def describe_environment(sharing: int = 1) -> dict[str, Any]:
    """Where a run runs. The result is promised to be the same only where this is.

    Args:
        sharing: the number of devices that share the tasks of a meta-batch.
    """
    device = jax.devices()[0]
    return {
        "anyshot": __version__,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "numpy": np.__version__,
        "machine": platform.machine(),
        "device": device.device_kind,
        "devices": len(jax.devices()),
        "hosts": jax.process_count(),
        "sharing": sharing,
        "opened": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _is_enough(job: Job, state: Any, until_tasks: int | None) -> bool:
    return until_tasks is not None and job.tasks_ended(state) >= until_tasks


def _next_rounds(rounds: int, seconds: float, most: int) -> int:
    """How many rounds the next compiled call should have: as many as take about two seconds, at most twice as many."""
    return int(np.clip(rounds * SECONDS_A_DISPATCH / max(seconds, 1e-3), 1, min(2 * rounds, most)))


def _last_event(log: bytes) -> Event | None:
    try:
        return EVENTS.validate_json(log.splitlines()[-1])
    except (IndexError, ValidationError):
        return None


def advise(learner: Learner) -> str:
    """What may help a learner whose loss or parameters were not finite."""
    names = [f"learner.{name}" for name in STEP_SIZES if hasattr(getattr(learner, "hyper", None), name)]
    return f"try a smaller {' or '.join(names)}" if names else "check the learner's update"


def _not_finite(last: Event | None, learns_at_once: bool, advice: str) -> str:
    """What went wrong behind the event `last`, and what may help."""
    where = "while pretraining"
    if last is None:
        where, check = "in the first round", "check the inputs, the labels and the loss"
        advice = f"{check}, or {advice}" if learns_at_once else check
    elif isinstance(last, Evaluation):
        where = f"after step {last.step} of task {last.position + 1} ({last.task})"
    elif isinstance(last, Trial):
        where = f"after step {last.step}"
    return f"a loss or a parameter was not finite {where}; {advice}"
