"""The learner behind all tasks: its state, the updates it makes, and its snapshots."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from anyshot.errors import InputError
from anyshot.learners import Learner, LearnerSpec, Problem, build_learner
from anyshot.lifelong.engine import AllLabelled, Engine, Labelled
from anyshot.lifelong.growth import grow_state
from anyshot.lifelong.snapshots import write_snapshot
from anyshot.lifelong.store import DeletedError
from anyshot.networks import make_network
from anyshot.online import OnlineProtocol
from anyshot.runs.experiment import usual_loss
from anyshot.runs.learner_records import describe_learner
from anyshot.runs.records import complete_network
from anyshot.runs.state import restore_state, state_arrays
from anyshot.shots import Shots

INIT, UPDATES, PREDICTIONS = 0, 1, 2  # what random keys are for
MOST_MISSED = 100  # updates in a row whose examples were deleted meanwhile


@dataclass(frozen=True)
class LearnerSettings:
    """What a learner is made of, in values that JSON has.

    Attributes:
        learner: its name in the catalogue.
        network: the name of a network, or its settings.
        hyperparameters: of the learner.
        max_shots: M, the largest number of labels that the learner adapts to.
        tasks_per_update: tasks in a meta-batch.
        seed: of the initial weights and of every draw.
    """

    learner: str = "ridge-head"
    network: str | Mapping[str, Any] = "auto"
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    max_shots: int = 20
    tasks_per_update: int = 10
    seed: int = 0


class Learned(NamedTuple):
    """What was learned up to some moment.

    Args:
        engine: runs the learner.
        state: of the learner.
        updates: how many were made.
    """

    engine: Engine
    state: PyTree[Any]
    updates: int


class Learning:
    """A learner that goes on learning. `now` is replaced as a whole, so any thread sees a state that is complete.

    Args:
        settings: what the learner is made of.
        shape: of one input.
        dtype: of the inputs.
        outputs: the number of outputs.
        classification: whether labels are classes.
        read: gives the inputs that are stored at these rows.
    """

    def __init__(
        self,
        settings: LearnerSettings,
        shape: tuple[int, ...],
        dtype: str,
        outputs: int,
        classification: bool,
        read: Callable[[np.ndarray], np.ndarray],
    ) -> None:
        self.settings, self.shape, self.dtype, self.classification = settings, shape, dtype, classification
        self.read = read
        self.publishing = threading.Lock()
        engine = self._make_engine(outputs)
        self.now = Learned(engine, engine.init(self._key(INIT)), 0)

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return self.now.engine.problem.outputs

    def grow(self, outputs: int) -> None:
        """Have at least so many outputs. What was learned stays in the first ones."""
        if outputs > self.outputs:
            engine = self._make_engine(outputs)
            initial = engine.init(self._key(INIT))
            with self.publishing:
                self.now = Learned(engine, grow_state(self.now.state, initial), self.now.updates)

    def learn(self, labelled: Callable[[], AllLabelled], go_on: Callable[[int], bool]) -> int:
        """Make updates while `go_on(updates made)`.

        Args:
            labelled: gives the examples of all tasks.
            go_on: asked before each update.

        Returns:
            The number of updates.
        """
        made = missed = 0
        while go_on(made):
            examples = labelled()
            if not examples.counts.any():
                break
            before = self.now
            key = jax.random.fold_in(self._key(UPDATES), before.updates)
            try:
                state, _ = before.engine.update(before.state, examples, key)
            except DeletedError:  # by another thread, a moment ago
                missed += 1
                if missed > MOST_MISSED:
                    raise
                time.sleep(0.01)
                continue
            missed = 0
            jax.block_until_ready(state)
            with self.publishing:
                if self.now is before:  # else it was grown, rolled back or begun again meanwhile
                    self.now = Learned(before.engine, state, before.updates + 1)
                    made += 1
        return made

    def predict(self, task: Labelled, x: np.ndarray, learned: Learned | None = None) -> np.ndarray:
        """The outputs for each input, after adaptation to the labels of a task.

        Args:
            task: the labels. If there are more than M, their number decides at random which M are used.
            x: inputs.
            learned: what to predict with; by default what was learned up to now.
        """
        learned = learned or self.now
        return learned.engine.predict(learned.state, self.support(task, learned), x)

    def features(self, x: np.ndarray, learned: Learned | None = None) -> np.ndarray | None:
        """The learner's features of each input; None if it has none."""
        learned = learned or self.now
        return learned.engine.features(learned.state, x)

    def support(self, task: Labelled, learned: Learned | None = None) -> Shots:
        """The labels that predictions adapt to: all of a task, or M of them."""
        return (learned or self.now).engine.support(task, jax.random.fold_in(self._key(PREDICTIONS), task.count))

    def start_again(self) -> None:
        """Forget everything that was learned."""
        with self.publishing:
            engine = self.now.engine
            self.now = Learned(engine, engine.init(self._key(INIT)), 0)

    def save(self, path: Path, about: Mapping[str, Any], learned: Learned | None = None) -> None:
        """Write what was learned to a file; by default what was learned up to now."""
        engine, state, updates = learned or self.now
        record = describe_learner(engine.learner).model_dump(mode="json")
        write_snapshot(path, state_arrays(state), {"updates": updates, "learner": record, "time": time.time(), **about})

    def restore(self, arrays: dict[str, np.ndarray], about: Mapping[str, Any], path: Path) -> None:
        """Go on from what `read_snapshot` found in a file."""
        learned = self.learned_from(arrays, about, path)
        with self.publishing:
            self.now = learned

    def learned_from(self, arrays: dict[str, np.ndarray], about: Mapping[str, Any], path: Path) -> Learned:
        """What `read_snapshot` found in a file, with at least as many outputs as there are now."""
        check_learner(self.now.engine.learner, about, path)
        now, outputs = self.now.engine, about["learner"]["problem"]["outputs"]
        engine = now if outputs == now.problem.outputs else self._make_engine(outputs)
        state = restore_state(engine.init(self._key(INIT)), arrays)
        if outputs < now.problem.outputs:
            engine, state = now, grow_state(state, now.init(self._key(INIT)))
        return Learned(engine, state, int(about["updates"]))

    def _key(self, purpose: int) -> Any:
        return jax.random.fold_in(jax.random.key(self.settings.seed), purpose)

    def _make_engine(self, outputs: int) -> Engine:
        return make_engine(self.settings, self.shape, self.dtype, outputs, self.classification, self.read)


def make_engine(
    settings: LearnerSettings,
    shape: tuple[int, ...],
    dtype: str,
    outputs: int,
    classification: bool,
    read: Callable[[np.ndarray], np.ndarray],
) -> Engine:
    """What runs the learner; arguments as for `Learning`."""
    label = jax.ShapeDtypeStruct((), jnp.int32) if classification else jax.ShapeDtypeStruct((outputs,), jnp.float32)
    problem = Problem((jax.ShapeDtypeStruct(shape, np.dtype(dtype)), label), outputs, settings.max_shots)
    network = make_network(settings.network, shape, outputs=outputs)
    spec = LearnerSpec(settings.learner, problem, network, usual_loss(problem))
    learner = build_learner(spec, dict(settings.hyperparameters))
    protocol = OnlineProtocol(
        max_shots=settings.max_shots,
        points_per_shot=1,
        tasks_per_update=settings.tasks_per_update,
        test_size=1,
    )
    return Engine(learner, problem, protocol, read)


def check_learner(learner: Learner, about: Mapping[str, Any], path: Path) -> None:
    """Refuse a snapshot of another learner.

    Args:
        learner: that is to go on from it.
        about: what the snapshot says.
        path: of the snapshot.
    """
    record = describe_learner(learner).model_dump(mode="json")
    saved = {**about["learner"], "network": complete_network(about["learner"]["network"])}
    for part in ("name", "hyperparameters", "network"):
        if saved[part] != record[part]:
            raise InputError(
                f"{path} is of another learner: its {part} is {saved[part]}, here it is {record[part]}; use a new "
                "folder for it"
            )
