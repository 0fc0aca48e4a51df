"""What a learner is: three pure functions over a state, and the names of the data it needs."""

from __future__ import annotations

import abc
from typing import Any, Literal, TypeVar

import equinox as eqx
from jaxtyping import Array, Float, Int, Key, PyTree

from anyshot.shots import Episodes, Shots

State = PyTree[Any]
Want = Literal["episodes", "batch", "current", "memory"]
T = TypeVar("T")


class Drawn(eqx.Module):
    """The data for one update, drawn from everything received so far. What the learner does not want is None.

    The data of several updates is one `Drawn` with a leading axis.

    Args:
        episodes: tasks drawn uniformly from those seen, each with shots to adapt on and others to validate on.
        batch: datapoints drawn uniformly from everything received.
        current: datapoints of the current task.
        memory: datapoints of earlier tasks. Only the first few of each task are remembered. During the first task it
            is empty (count 0).
        episode_task: the position in the stream of each episode's task; given with `episodes` online.
        memory_task: the position in the stream of each remembered datapoint's task; given with `memory`.
    """

    episodes: Episodes | None = None
    batch: Shots | None = None
    current: Shots | None = None
    memory: Shots | None = None
    episode_task: Int[Array, "*updates tasks"] | None = None
    memory_task: Int[Array, "*updates n"] | None = None


def wanted(drawn: T | None) -> T:
    """A field of `Drawn` that must be there because the learner's `wants` names it."""
    assert drawn is not None, "the learner's `wants` does not name what its update uses"
    return drawn


class Learner(eqx.Module):
    """A learning method. The loops, the checks and the reports use only what is declared here.

    To add one, subclass this or `NetworkLearner`. The state is any PyTree. All randomness comes from the key.
    `anyshot.checks.check_learner` tests whether a learner behaves as the loops expect.
    """

    @property
    def name(self) -> str:
        """The name that tables and figures show."""
        return type(self).__name__.lower()

    @property
    def inner_steps(self) -> int:
        """The gradient steps of one adaptation; 0 for a method that does not adapt by gradients."""
        return 0

    @property
    def second_order(self) -> bool:
        """Whether an update differentiates these steps, too."""
        return False

    @property
    def shares_tasks(self) -> bool:
        """Whether updates share the tasks of a meta-batch among devices, as `MetaObjective` does."""
        return False

    @property
    def uses_all_labels(self) -> bool:
        """Whether online evaluations give it all labels of the task as shots, instead of some of them and at most M."""
        return False

    @property
    @abc.abstractmethod
    def wants(self) -> frozenset[Want]:
        """The fields of `Drawn` that `update` needs. A learner that wants nothing is never updated."""

    @abc.abstractmethod
    def init(self, key: Key[Array, ""]) -> State:
        """The state before any data has arrived."""

    @abc.abstractmethod
    def update(self, state: State, drawn: Drawn, key: Key[Array, ""]) -> tuple[State, dict[str, Float[Array, ""]]]:
        """One (meta-)update. Returns the new state and scalars to log, which include `loss`."""

    @abc.abstractmethod
    def predict(self, state: State, support: Shots, query: PyTree[Array]) -> PyTree[Array]:
        """Outputs for a batch of inputs of one task, given its shots; there may be zero shots."""

    @classmethod
    def observes(cls) -> bool:
        """Whether such learners are shown, online, what they had expected of the labels that arrive."""
        return cls.observe is not Learner.observe

    def expect(self, state: State, support: Shots, query: PyTree[Array]) -> Float[Array, "n ..."]:
        """What `combine` makes predictions of, and `observe` is shown later: some numbers for each input.

        Only learners that observe have this. Their `predict` is `combine` after `expect`.
        """
        raise NotImplementedError(f"{type(self).__name__} observes, so it needs expect and combine")

    def combine(self, state: State, support: Shots, expected: Float[Array, "n ..."]) -> PyTree[Array]:
        """Outputs for a batch of inputs, from what is expected of them."""
        raise NotImplementedError(f"{type(self).__name__} observes, so it needs expect and combine")

    def observe(self, state: State, expected: Float[Array, "n ..."], arrived: Shots) -> State:
        """The state after labels of the current task have arrived, before it is updated with them.

        Args:
            state: before they arrived.
            expected: what `expect` gave for their inputs at the last evaluation.
            arrived: the inputs and their labels.
        """
        return state

    def end_task(self, state: State) -> State:
        """The state after the current task has ended. Called online if the learner observes."""
        return state

    def recall(self, state: State, memory: Shots) -> State:
        """The state with `memory` as its memory of earlier tasks. Called before each evaluation."""
        return state

    @classmethod
    def has_features(cls) -> bool:
        """Whether such learners make features of inputs."""
        return cls.features is not Learner.features

    def features(self, state: State, x: PyTree[Array]) -> Float[Array, "n features"] | None:
        """Numbers that say of each input what was learned about such inputs; None if the learner has none."""
        return None

    def rates(self, state: State) -> dict[str, Float[Array, "..."]]:
        """The inner step sizes: `alpha` for s = 0..M, and `beta` and `eta` if the learner has them."""
        return {}
