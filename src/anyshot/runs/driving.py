"""Driving a compiled loop in a run folder: saved as it goes, resumed exactly, stopped with a sentence."""

from __future__ import annotations

import functools
import platform
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

import anyshot
from anyshot.devices import compiler_options, everywhere
from anyshot.errors import RunError
from anyshot.runs.folder import RunFolder

Watch = Callable[[str, dict[str, Any]], None]
SECONDS_A_DISPATCH = 2.0  # how long a compiled call should take: long enough to cost nothing, short enough to interrupt


@runtime_checkable
class Loop(Protocol):
    """What is driven: `OnlineLoop`, `OfflineLoop`. Its state counts `rounds` and says whether all is `finite`."""

    dispatch: int

    def start(self, data: Any, key: Any) -> Any:
        """The state before the first round."""

    def run(self, data: Any, state: Any, key: Any, rounds: Any) -> tuple[Any, Any, Any]:
        """State, records and how many of them are filled, after up to so many rounds."""


@runtime_checkable
class Events(Protocol):
    """Turns records into events, and keeps what must be known to go on with them."""

    def of(self, records: Any, count: int) -> list[dict[str, Any]]:
        """The events of the first so many records."""

    def kept(self) -> dict[str, Any]:
        """What a checkpoint keeps of it."""

    def go_on(self, kept: dict[str, Any]) -> None:
        """Be as it was then."""


def drive(
    loop: Loop,
    data: PyTree[Any],
    keys: dict[str, Any],
    events: Events,
    over: Callable[[Any], bool],
    folder: RunFolder,
    checkpoint_seconds: float,
    watch: Watch,
) -> Any:
    """Run rounds until it is over, and return the state; the last checkpoint holds it.

    Args:
        loop: what to run.
        data: what it learns from, on the device.
        keys: `start` draws the initial state, `run` all else.
        events: makes the log.
        over: whether a state is the last one.
        folder: of the run, opened.
        checkpoint_seconds: how often to save, at least.
        watch: called with ("compiling", ...), ("evaluated", event), ("saved", ...) as they happen.
    """
    state = everywhere(eqx.filter_jit(loop.start)(data, keys["start"]))
    checkpoint = folder.resume()
    if checkpoint:
        state = everywhere(restored(state, checkpoint.arrays))
        events.go_on(checkpoint.info)
    run = functools.partial(compiled_run(), loop, data)
    watch("compiling", {})
    started = time.monotonic()
    run(state, keys["run"], jnp.asarray(0, jnp.int32))  # no round at all, so that only compiling takes time
    watch("compiled", {"seconds": time.monotonic() - started})

    def save() -> None:
        folder.save(int(state.rounds), arrays_of(state), events.kept())
        watch("saved", {"rounds": int(state.rounds)})

    rounds, saved = 1, time.monotonic()
    with interruptible() as interrupted:
        while not over(state):
            started = time.monotonic()
            state, records, done = run(state, keys["run"], jnp.asarray(rounds, jnp.int32))
            lines = events.of(jax.device_get(records), int(done))
            if not bool(state.finite):
                raise RunError(_not_finite(lines[-1], folder))
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
    return state


@functools.cache
def compiled_run() -> Any:
    """The `run` of any loop, compiled once in a process for all runs that differ only in their seed."""

    def run(loop: Loop, data: Any, state: Any, key: Any, rounds: Any) -> tuple[Any, Any, Any]:
        return loop.run(data, state, key, rounds)

    return compiled(run)


def compiled(function: Callable[..., Any]) -> Any:
    """A function compiled with our options."""
    return eqx.filter_jit(function, compiler_options=compiler_options())  # type: ignore[call-overload]


def arrays_of(state: PyTree[Any]) -> dict[str, np.ndarray]:
    """Every array of the state, by its path in it."""
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(state, eqx.is_array))
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def restored(state: PyTree[Any], arrays: dict[str, np.ndarray]) -> PyTree[Any]:
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
def interruptible() -> Iterator[list[int]]:
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


def _not_finite(line: dict[str, Any], folder: RunFolder) -> str:
    task = f"task {line['position']} ({line['task']}), step {line['step']}" if "position" in line else None
    return (
        f"a loss or a parameter was not finite any more at {task or 'step ' + str(line.get('step', 'none yet'))}; try "
        "a smaller numbers.meta_rate or numbers.inner_rate, or numbers.inner_clip; the last good checkpoint is in "
        f"{folder.path}"
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
