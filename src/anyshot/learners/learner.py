"""What a learner is: three pure functions over a state, and a word on what it wants to be given."""

from __future__ import annotations

import abc
from typing import Any, Literal

import equinox as eqx
from jaxtyping import Array, Float, Int, Key, PyTree

from anyshot.adaptation import Episodes, Shots

State = PyTree[Any]
Want = Literal["episodes", "batch", "current", "memory"]


class Drawn(eqx.Module):
    """What was drawn from the data received so far for one update; only what the learner wants is there.

    Args:
        episodes: tasks drawn uniformly from those seen, each with shots to adapt on and others to validate on.
        batch: datapoints drawn uniformly from everything received.
        current: datapoints of the current task.
        memory: datapoints of earlier tasks, of which only the first few of each task are remembered; none while the
            first task lasts (count 0).
        episode_task: where in the stream each episode's task is; with episodes.
        memory_task: where in the stream the task of each datapoint of the memory is; with the memory.
    """

    episodes: Episodes | None = None
    batch: Shots | None = None
    current: Shots | None = None
    memory: Shots | None = None
    episode_task: Int[Array, " tasks"] | None = None
    memory_task: Int[Array, " n"] | None = None


class Learner(eqx.Module):
    """A method. The online loop, the checks and the service know nothing else about it.

    To add one, subclass this in one file. The state is any PyTree of arrays; everything random comes from the key.
    `anyshot.checks.check_learner` says whether it behaves.
    """

    @property
    @abc.abstractmethod
    def wants(self) -> frozenset[Want]:
        """What `update` is to be given."""

    @abc.abstractmethod
    def init(self, key: Key[Array, ""]) -> State:
        """The state before any data."""

    @abc.abstractmethod
    def update(self, state: State, drawn: Drawn, key: Key[Array, ""]) -> tuple[State, dict[str, Float[Array, ""]]]:
        """The state after one (meta-)update, and numbers worth logging, `loss` among them."""

    @abc.abstractmethod
    def predict(self, state: State, support: Shots, query: PyTree[Array]) -> PyTree[Array]:
        """Outputs for a batch of inputs of one task, of which `support` holds the shots; zero shots are allowed."""

    def recall(self, state: State, memory: Shots) -> State:
        """The state with what is remembered of earlier tasks brought up to date, before it is asked to predict."""
        return state

    def rates(self, state: State) -> dict[str, Float[Array, "..."]]:
        """The learned rule for the inner step size: `alpha` over s = 0..M, `beta`, `eta`, as far as there are such."""
        return {}
