"""How long an update and an online step of an experiment take on this machine."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from anyshot.devices import compiler_options, replicate
from anyshot.errors import InputError
from anyshot.online import Buffer, OnlineLoop, OnlineState, Stream
from anyshot.runs.drive import compiled_run, describe_environment
from anyshot.runs.experiment import Experiment, make_learner
from anyshot.runs.folder import RunFolder
from anyshot.runs.online import OnlineJob
from anyshot.runs.presets import preset
from anyshot.runs.settings import own_hyperparameters
from anyshot.tasks import TaskSet, load_tasks

RAINBOW = (56, 800, 100)  # tasks, and examples of each to train and to test on


@dataclasses.dataclass(frozen=True)
class Timing:
    """Times of one (meta-)update and of one online step, in seconds; medians.

    Attributes:
        update: the (meta-)gradient and the optimiser's step, on data that is at hand.
        first_step: an online step of the first task, with arrivals, draws, updates, evaluation and log.
        last_step: the same at the end of the stream, where most tasks have all their data.
        compile_update: to compile the update.
        compile_online: to compile the online loop.
        memory: bytes that the program of the update needs, its data included; None if XLA does not know.
        peak: most bytes in use on the device; None if the device does not know.
    """

    update: float
    first_step: float
    last_step: float
    compile_update: float
    compile_online: float
    memory: int | None
    peak: int | None


def make_timing_experiment(name: str, learner: str) -> Experiment:
    """The experiment of an online preset; random images of the same sizes take the place of Rainbow MNIST.

    >>> make_timing_experiment("rainbow-mnist", "toe").tasks.x.shape
    (50400, 28, 28, 3)
    """
    found = preset(name)
    if found.protocol.kind != "online":
        raise InputError(f"preset must be an online one, {name} is {found.protocol.kind}")
    tasks = _random_images() if found.data == "rainbow-mnist" else load_tasks(found.data, seed=found.data_seed)
    hyperparameters = own_hyperparameters(found, learner)
    made = make_learner(learner, tasks, found.protocol, network=found.network, **hyperparameters)
    return Experiment(tasks, made, found.protocol)


def time_experiment(
    experiment: Experiment, repeats: int = 3, report: Callable[[str], None] = lambda line: None
) -> Timing:
    """Compile and measure.

    Args:
        experiment: an online one, whose sizes, learner and network are timed.
        repeats: how often each kind is measured, in turn, so that a disturbance affects all of them.
        report: called with one line before each part that takes long.
    """
    if repeats < 1:
        raise InputError(f"repeats must be at least 1, got {repeats}")
    if not experiment.learner.wants:
        raise InputError(
            f"learner must be one that is updated, got {experiment.learner.name}, which has nothing to time"
        )
    job = OnlineJob(experiment)
    loop, stream, keys = job.loop, job.load_data(), job.keys
    early, late = make_states(loop, stream, keys["start"])
    steps = loop.protocol.steps_per_arrival * loop.protocol.updates_per_step
    report("compiling the update")
    started = time.perf_counter()
    update, memory = _compile_updates(loop, stream, late, keys["run"], steps)
    compile_update = time.perf_counter() - started
    report("compiling the online loop")
    started = time.perf_counter()
    compiled_run()(loop, stream, early, keys["run"], jnp.asarray(0, jnp.int32))
    compile_online = time.perf_counter() - started
    report("measuring")
    with (
        tempfile.TemporaryDirectory() as place,
        RunFolder.opened(Path(place, "run"), experiment.record, describe_environment(), report) as folder,
    ):
        folder.resume()

        def step(state: OnlineState) -> None:
            _, found, done = compiled_run()(loop, stream, state, keys["run"], jnp.asarray(1, jnp.int32))
            folder.append(job.make_recorder(stream).record(jax.device_get(found), int(done)))

        kinds = (update, lambda: step(early), lambda: step(late))
        taken = np.array([[_seconds(kind) for kind in kinds] for _ in range(repeats + 1)])[1:] / steps
    update_time, first_step, last_step = (float(value) for value in np.median(taken, axis=0))
    peak = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    return Timing(update_time, first_step, last_step, compile_update, compile_online, memory, peak)


def make_states(loop: OnlineLoop, stream: Stream, key: Any) -> tuple[OnlineState, OnlineState]:
    """A state in the first task, after one arrival; and one in the last, when all others have all their data."""
    start = eqx.filter_jit(loop.start)(stream, key)
    one = jnp.asarray(1, jnp.int32)
    # Pretraining is over in both; the number of rounds alone decides that.
    rounds = jnp.asarray(loop.protocol.pretrain_rounds + 1, jnp.int32)
    early = dataclasses.replace(start, round=one, rounds=rounds)
    last = stream.positions - 1
    received = (
        jnp.full(stream.positions, stream.capacity, jnp.int32).at[last].set(max(2, stream.capacity // 8 // 2 * 2))
    )
    seen = jnp.arange(stream.positions, dtype=jnp.int32)
    buffer = Buffer(received, seen, jnp.asarray(stream.positions, jnp.int32))
    late = dataclasses.replace(early, buffer=buffer, position=jnp.asarray(last, jnp.int32))
    return replicate(early), replicate(late)


def _random_images() -> TaskSet:
    tasks, train_rows, test_rows = RAINBOW
    random = np.random.default_rng(0)
    rows = np.arange(tasks * (train_rows + test_rows), dtype=np.int32).reshape(tasks, train_rows + test_rows)
    x = random.integers(0, 256, (rows.size, 28, 28, 3), np.uint8)
    y = random.integers(0, 10, rows.size, np.int32)
    names = tuple(f"task {number}" for number in range(tasks))
    return TaskSet("random", x, y, rows[:, :train_rows], rows[:, train_rows:], names, fingerprint="random")


def _compile_updates(
    loop: OnlineLoop, stream: Stream, state: OnlineState, key: Any, steps: int
) -> tuple[Callable[[], None], int | None]:
    """A function that makes `steps` updates on one draw in one program, and the bytes that the program needs."""
    learner = loop.learner
    drawn = jax.jit(lambda: state.buffer.draw(stream, loop.protocol, learner.wants, state.position, key))()
    arrays, static = eqx.partition(state.learner, eqx.is_array)

    def updates(arrays: Any, drawn: Any, keys: Any) -> Any:
        def update(arrays: Any, key: Any) -> Any:
            new, metrics = learner.update(eqx.combine(arrays, static), drawn, key)
            return eqx.filter(new, eqx.is_array), metrics["loss"]

        return jax.lax.scan(update, arrays, keys)

    arguments = replicate((arrays, drawn, jax.random.split(key, steps)))
    program = jax.jit(updates, compiler_options=compiler_options()).lower(*arguments).compile()
    sizes = program.memory_analysis()
    memory = sizes and sizes.temp_size_in_bytes + sizes.argument_size_in_bytes + sizes.output_size_in_bytes
    return lambda: jax.block_until_ready(program(*arguments)), memory


def _seconds(run: Callable[[], None]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started
