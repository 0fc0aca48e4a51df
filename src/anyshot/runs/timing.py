"""How long an experiment's meta-gradient and its online step take on this machine, measured by turns."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from anyshot.devices import compiler_options, everywhere
from anyshot.errors import InputError
from anyshot.online import Buffer, OnlineLoop, OnlineState, Stream
from anyshot.runs.driving import compiled_run
from anyshot.runs.events import Events
from anyshot.runs.experiment import Experiment
from anyshot.runs.folder import RunFolder
from anyshot.tasks import TaskSet

RAINBOW = (56, 800, 100)  # tasks, examples given and held of each


@dataclass(frozen=True)
class Timing:
    """Times of one (meta-)update and of one online step, in seconds; medians.

    Attributes:
        update: the bare (meta-)gradient and Adam's step, on data that is there.
        first_step: an online step of the first task: arrivals, draws, updates, evaluation and log included.
        last_step: the same at the end of the stream, where most tasks have all their data.
        compile_update: how long it took to compile the one.
        compile_online: and the other.
        memory: bytes that the program of the update needs, its data included; None where XLA does not tell.
        peak: most bytes in use on the device; None where it does not tell.
    """

    update: float
    first_step: float
    last_step: float
    compile_update: float
    compile_online: float
    memory: int | None
    peak: int | None


def tasks_for(experiment: Experiment) -> TaskSet:
    """What the experiment learns from; random images take the place of Rainbow MNIST's, at the same cost.

    >>> from anyshot.runs.presets import preset
    >>> tasks_for(Experiment(preset("rainbow-mnist"), "ftml-vs", 0)).x.shape
    (50400, 28, 28, 3)
    """
    data = experiment.settings.data
    if data.name != "rainbow-mnist" or data.settings:
        return experiment.load_tasks()
    tasks, given, held = RAINBOW
    random = np.random.default_rng(0)
    rows = np.arange(tasks * (given + held), dtype=np.int32).reshape(tasks, given + held)
    x = random.integers(0, 256, (rows.size, 28, 28, 3), np.uint8)
    y = random.integers(0, 10, rows.size, np.int32)
    names = tuple(f"task {number}" for number in range(tasks))
    return TaskSet("random", x, y, rows[:, :given], rows[:, given:], names, fingerprint="random")


def time_experiment(
    experiment: Experiment, repeats: int = 3, tell: Callable[[str], None] = lambda line: None
) -> Timing:
    """Compile and measure.

    Args:
        experiment: whose sizes, learner and network are timed.
        repeats: rounds of each kind, by turns, so that a disturbance hits all alike.
        tell: called with one line before each part that takes long.
    """
    if repeats < 1:
        raise InputError(f"repeats must be at least 1, got {repeats}")
    tasks = tasks_for(experiment)
    loop, stream, keys = experiment.loop(tasks), experiment.stream(tasks), experiment.keys()
    early, late = states(loop, stream, keys["start"])
    steps = loop.protocol.every * loop.protocol.updates
    tell("compiling the update")
    started = time.perf_counter()
    updates, memory = _compiled_updates(loop, stream, late, keys["run"], steps)
    compile_update = time.perf_counter() - started
    tell("compiling the online loop")
    started = time.perf_counter()
    compiled_run()(loop, stream, early, keys["run"], jnp.asarray(0, jnp.int32))
    compile_online = time.perf_counter() - started
    tell("measuring")
    with tempfile.TemporaryDirectory() as place, RunFolder.opened(Path(place, "run"), {}, {}, tell) as folder:
        folder.resume()
        names = [tasks.task_names[task] for task in np.asarray(stream.order)]

        def online(state: OnlineState) -> None:
            _, records, done = compiled_run()(loop, stream, state, keys["run"], jnp.asarray(1, jnp.int32))
            folder.append(Events(loop.protocol, names).of(jax.device_get(records), int(done)))

        runs = (updates, lambda: online(early), lambda: online(late))
        taken = np.array([[_seconds(run) for run in runs] for _ in range(repeats + 1)])[1:] / steps
    update, first_step, last_step = (float(value) for value in np.median(taken, axis=0))
    peak = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    return Timing(update, first_step, last_step, compile_update, compile_online, memory, peak)


def states(loop: OnlineLoop, stream: Stream, key: Any) -> tuple[OnlineState, OnlineState]:
    """In the first task, one arrival in it; and in the last one, all other tasks having all their data."""
    start = eqx.filter_jit(loop.start)(stream, key)
    one = jnp.asarray(1, jnp.int32)
    # Pretraining rounds are behind both; they are told from others by the number of rounds alone.
    rounds = jnp.asarray(loop.protocol.pretrain_rounds + 1, jnp.int32)
    early = OnlineState(start.learner, start.buffer, start.position, one, rounds, start.finite)
    last = stream.positions - 1
    received = (
        jnp.full(stream.positions, stream.capacity, jnp.int32).at[last].set(max(2, stream.capacity // 8 // 2 * 2))
    )
    seen = jnp.arange(stream.positions, dtype=jnp.int32)
    buffer = Buffer(received, seen, jnp.asarray(stream.positions, jnp.int32))
    late = OnlineState(start.learner, buffer, jnp.asarray(last, jnp.int32), one, rounds, start.finite)
    return everywhere(early), everywhere(late)


def _compiled_updates(
    loop: OnlineLoop, stream: Stream, state: OnlineState, key: Any, steps: int
) -> tuple[Callable[[], None], int | None]:
    """A function that makes `steps` updates on one draw in one program, and the bytes that program needs."""
    learner = loop.learner
    drawn = jax.jit(lambda: state.buffer.draw(stream, loop.protocol, learner.wants, state.position, key))()
    arrays, static = eqx.partition(state.learner, eqx.is_array)

    def updates(arrays: Any, drawn: Any, keys: Any) -> Any:
        def update(arrays: Any, key: Any) -> Any:
            new, metrics = learner.update(eqx.combine(arrays, static), drawn, key)
            return eqx.filter(new, eqx.is_array), metrics["loss"]

        return jax.lax.scan(update, arrays, keys)

    arguments = everywhere((arrays, drawn, jax.random.split(key, steps)))
    program = jax.jit(updates, compiler_options=compiler_options()).lower(*arguments).compile()
    told = program.memory_analysis()
    memory = told and told.temp_size_in_bytes + told.argument_size_in_bytes + told.output_size_in_bytes
    return lambda: jax.block_until_ready(program(*arguments)), memory


def _seconds(run: Callable[[], None]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started
