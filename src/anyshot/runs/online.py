"""Running an online experiment in a run folder: saved as it goes, resumed exactly, stopped with a sentence."""

from __future__ import annotations

import functools
import platform
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import anyshot
from anyshot.devices import compiler_options, everywhere
from anyshot.errors import RunError
from anyshot.online import OnlineLoop, OnlineState, Record, Stream
from anyshot.online.ledger import Ledger
from anyshot.runs.events import Events
from anyshot.runs.experiment import Experiment
from anyshot.runs.folder import RunFolder, read_events
from anyshot.tasks import TaskSet

Watch = Callable[[str, dict[str, Any]], None]
SECONDS_A_DISPATCH = 2.0  # how long a compiled call should take: long enough to cost nothing, short enough to interrupt


def run_online(
    experiment: Experiment,
    out: Path,
    *,
    checkpoint_seconds: float = 60.0,
    watch: Watch = lambda what, news: None,
    warn: Callable[[str], None] = lambda sentence: None,
) -> Ledger:
    """Run an experiment to its end, or on from where it was left.

    Args:
        experiment: what to run.
        out: the run folder: new, empty, or of this experiment.
        checkpoint_seconds: how often to save, at least.
        watch: called with ("compiling", ...), ("evaluated", event), ("saved", ...) as they happen.
        warn: called with one sentence for each thing that was wrong and has been healed.

    Raises:
        RunError: the loss or a parameter was not finite; the last good checkpoint is kept.
        KeyboardInterrupt: Ctrl-C; the chunk at hand was finished and saved.
    """
    watch("loading", {"name": experiment.settings.data.name})
    tasks = experiment.load_tasks()
    loop = experiment.loop(tasks)
    with RunFolder.opened(out, experiment.describe(tasks), environment(), warn) as folder:
        if not folder.finished:
            _run(experiment, loop, tasks, folder, checkpoint_seconds, watch)
    return Ledger.of(read_events(out), experiment.settings.protocol.test)


def _run(
    experiment: Experiment, loop: OnlineLoop, tasks: TaskSet, folder: RunFolder, checkpoint_seconds: float, watch: Watch
) -> None:
    stream, keys = experiment.stream(tasks), experiment.keys()
    state = everywhere(eqx.filter_jit(loop.start)(stream, keys["start"]))
    checkpoint = folder.resume()
    events = Events(experiment.settings.protocol, [tasks.task_names[task] for task in np.asarray(stream.order)])
    if checkpoint:
        state = everywhere(restored(state, checkpoint.arrays))
        events.total_loss, events.total_labels = checkpoint.info["total_loss"], checkpoint.info["total_labels"]
    run = functools.partial(compiled_run(), loop, stream)
    watch("compiling", {})
    started = time.monotonic()
    run(state, keys["run"], jnp.asarray(0, jnp.int32))  # no round at all, so that only compiling takes time
    watch("compiled", {"seconds": time.monotonic() - started})

    def save() -> None:
        info = {"total_loss": events.total_loss, "total_labels": events.total_labels}
        folder.save(int(state.rounds), arrays_of(state), info)
        watch("saved", {"rounds": int(state.rounds)})

    rounds, saved = 1, time.monotonic()
    with _interruptible() as interrupted:
        while int(state.position) < stream.positions:
            started = time.monotonic()
            state, records, done = run(state, keys["run"], jnp.asarray(rounds, jnp.int32))
            lines = events.of(jax.device_get(records), int(done))
            if not bool(state.finite):
                raise RunError(_not_finite(lines[-1], folder.path))
            folder.append(lines)
            for line in lines:
                watch("evaluated", line)
            seconds = time.monotonic() - started
            rounds = int(np.clip(rounds * SECONDS_A_DISPATCH / max(seconds, 1e-3), 1, min(2 * rounds, loop.dispatch)))
            if interrupted or time.monotonic() - saved > checkpoint_seconds:
                save()
                saved = time.monotonic()
            if interrupted:
                raise KeyboardInterrupt
        save()
        folder.finish(events.summary())


@functools.cache
def compiled_run() -> Any:
    """`OnlineLoop.run`, compiled once in a process for all runs that differ only in their seed."""

    def run(loop: OnlineLoop, stream: Stream, state: OnlineState, key: Any, rounds: Any) -> tuple[Any, Record, Any]:
        return loop.run(stream, state, key, rounds)

    return eqx.filter_jit(run, compiler_options=compiler_options())  # type: ignore[call-overload]


def arrays_of(state: OnlineState) -> dict[str, np.ndarray]:
    """Every array of the state, by its path in it."""
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(state, eqx.is_array))
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def restored(state: OnlineState, arrays: dict[str, np.ndarray]) -> OnlineState:
    """The state with the arrays that were saved, which must be the ones it has."""
    have = {name: (array.shape, array.dtype) for name, array in arrays_of(state).items()}
    saved = {name: (array.shape, array.dtype) for name, array in arrays.items()}
    if have != saved:
        differing = sorted(name for name in have.keys() | saved.keys() if have.get(name) != saved.get(name))
        raise RunError(
            f"the checkpoint does not fit this version of anyshot: {differing[0]} differs; resume with the version "
            "that environment.json names"
        )

    def saved_leaf(path: Any, leaf: Any) -> Any:
        return jnp.asarray(arrays[jax.tree_util.keystr(path)]) if eqx.is_array(leaf) else leaf

    return jax.tree_util.tree_map_with_path(saved_leaf, state)


@contextmanager
def _interruptible() -> Iterator[list[int]]:
    """A list that Ctrl-C (or a request to terminate) puts something in, instead of ending things half-way."""
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        if len(asked) > 2:  # it is meant
            raise KeyboardInterrupt

    try:
        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread, which alone gets signals
        yield asked
        return
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _not_finite(line: dict[str, Any], folder: Path) -> str:
    return (
        f"a loss or a parameter was not finite any more at task {line.get('position', 'none yet')} "
        f"({line.get('task', 'pretraining')}), step {line.get('step', line.get('pretraining'))}; try a smaller "
        f"numbers.meta_rate or numbers.inner_rate, or numbers.inner_clip; the last good checkpoint is in {folder}"
    )


def environment() -> dict[str, Any]:
    """Where a run runs; the result is promised to be the same only where this is."""
    device = jax.devices()[0]
    return {
        "anyshot": anyshot.__version__,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "numpy": np.__version__,
        "machine": platform.machine(),
        "device": device.device_kind,
        "devices": len(jax.devices()),
        "opened": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
