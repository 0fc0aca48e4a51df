"""Incremental ProtoNet: the nearest prototype gives the class; prototypes may come from earlier tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from anyshot.errors import InputError
from anyshot.learners.learner import Drawn, Want, wanted
from anyshot.learners.network_learner import Hyperparameters, NetworkLearner
from anyshot.limits import check_whole
from anyshot.shots import Episodes, Shots

MOST = 10_000  # numbers in a prototype, or datapoints remembered


@dataclass(frozen=True, kw_only=True)
class ProtoNetHyperparameters(Hyperparameters):
    """ProtoNet's hyperparameters.

    Attributes:
        embedding: the size of a prototype.
        remembered: the number of datapoints of earlier tasks that are kept.
    """

    embedding: int = 64
    remembered: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("embedding", self.embedding, 1, MOST)
        check_whole("remembered", self.remembered, 1, MOST)


class ProtoNetState(eqx.Module):
    """The embedding, the optimiser's state, and datapoints remembered of earlier tasks."""

    model: PyTree[Any]
    optimiser: PyTree[Any]
    remembered: Shots


class ProtoNet(NetworkLearner):
    """Prototypical networks (Snell et al. 2017) for tasks that may have no shot of a class (paper, section 6.2).

    The prototype of a class is the mean embedding of its shots. If the task has no shot of a class, the prototype is
    the mean embedding of the datapoints of that class remembered from earlier tasks. If there are none either, it is
    the mean of all known prototypes, or the origin if no prototype is known. Logits are negative squared distances, so
    the loss is always finite.
    """

    hyperparameters: ClassVar[type[ProtoNetHyperparameters]] = ProtoNetHyperparameters

    hyper: ProtoNetHyperparameters = eqx.field(static=True)

    def __check_init__(self) -> None:
        if not self.spec.problem.classification:
            dtype = self.spec.problem.example[1].dtype
            raise InputError(f"protonet needs integer class labels, but this is a regression: labels are {dtype}")

    @property
    def wants(self) -> frozenset[Want]:
        """Episodes, and the memory of earlier tasks."""
        return frozenset({"episodes", "memory"})

    def init(self, key: Key[Array, ""]) -> ProtoNetState:
        """Random weights, nothing remembered."""
        model = self.make_model(key, self.hyper.embedding)
        x, y = (jnp.zeros((self.hyper.remembered, *leaf.shape), leaf.dtype) for leaf in self.spec.problem.example)
        empty = Shots(x, y, jnp.zeros((), jnp.int32))
        return ProtoNetState(model, self.init_optimiser(model), empty)

    def update(
        self, state: ProtoNetState, drawn: Drawn, key: Key[Array, ""]
    ) -> tuple[ProtoNetState, dict[str, Float[Array, ""]]]:
        """One step of the optimiser on the validation loss of the episodes.

        Classes without a shot take their prototypes from the memory. An episode sees only the memory of other tasks,
        because at evaluation the memory holds nothing of the current task.
        """
        episodes, episode_task = wanted(drawn.episodes), wanted(drawn.episode_task)
        remembered = self._remembered(wanted(drawn.memory))
        memory_task = _first(wanted(drawn.memory_task), self.hyper.remembered)

        @eqx.filter_value_and_grad
        def mean_loss(model: PyTree[Any]) -> Float[Array, ""]:
            embedded, of_class = _embedded(model, remembered, self.spec.problem.outputs)

            def of_task(one: Episodes, task: Int[Array, ""]) -> Float[Array, ""]:
                of_others = of_class & (memory_task != task)[:, None]
                val = one.val.without_padding_content()
                logits = self._logits(model, one.train, _sums(embedded, of_others), val.x)
                losses = jax.vmap(self.spec.loss)(logits, val.y)
                return jnp.sum(losses * val.present()) / jnp.maximum(val.count, 1)

            return jnp.mean(jax.vmap(of_task)(episodes, episode_task))

        loss, gradient = mean_loss(state.model)
        return ProtoNetState(*self.descend(gradient, state.optimiser, state.model), remembered), {"loss": loss}

    def predict(self, state: ProtoNetState, support: Shots, query: PyTree[Array]) -> PyTree[Array]:
        """-|f(x) - c_k|² for every class k."""
        known = _sums(*_embedded(state.model, state.remembered, self.spec.problem.outputs))
        return self._logits(state.model, support, known, query)

    def recall(self, state: ProtoNetState, memory: Shots) -> ProtoNetState:
        """Remember the datapoints of all earlier tasks, including the one that has just ended."""
        return ProtoNetState(state.model, state.optimiser, self._remembered(memory))

    def _remembered(self, memory: Shots) -> Shots:
        count = jnp.minimum(memory.count, self.hyper.remembered)
        x, y = _first((memory.x, memory.y), self.hyper.remembered)
        return Shots(x, y, count).without_padding_content()

    def _logits(
        self, model: PyTree[Any], support: Shots, remembered: ClassSums, query: PyTree[Array]
    ) -> Float[Array, "n classes"]:
        own = _sums(*_embedded(model, support, self.spec.problem.outputs))
        prototypes = complete(*own, *remembered)
        embedded = jax.vmap(model)(query)
        return -jnp.sum((embedded[:, None] - prototypes) ** 2, axis=2)


ClassSums = tuple[Float[Array, "classes embedding"], Int[Array, " classes"]]


def complete(
    own_sum: Float[Array, "classes embedding"],
    own_count: Int[Array, " classes"],
    other_sum: Float[Array, "classes embedding"],
    other_count: Int[Array, " classes"],
) -> Float[Array, "classes embedding"]:
    """A prototype for each class: from own shots, else from remembered ones, else the mean of the known prototypes.

    If no class is known, every prototype is the origin.

    >>> own, remembered = jnp.array([[4.0], [0.0], [0.0]]), jnp.array([[9.0], [8.0], [0.0]])
    >>> print(complete(own, jnp.array([2, 0, 0]), remembered, jnp.array([1, 1, 0]))[:, 0])
    [2. 8. 5.]
    """
    is_own: Bool[Array, "classes 1"] = (own_count > 0)[:, None]
    sums = jnp.where(is_own, own_sum, other_sum)
    counts = jnp.where(own_count > 0, own_count, other_count)
    means = sums / jnp.maximum(counts, 1)[:, None]
    known = (counts > 0)[:, None]
    centre = jnp.sum(means * known, axis=0) / jnp.maximum(jnp.sum(known), 1)
    return jnp.where(known, means, centre)


def _embedded(
    model: PyTree[Any], shots: Shots, classes: int
) -> tuple[Float[Array, "n embedding"], Bool[Array, "n classes"]]:
    """The embedding of each shot, and the class it belongs to; padding belongs to none."""
    if shots.size == 0:
        width = jax.eval_shape(jax.vmap(model), shots.x).shape[1]
        return jnp.zeros((0, width)), jnp.zeros((0, classes), bool)
    shots = shots.without_padding_content()
    of_class = (shots.y[:, None] == jnp.arange(classes)) & shots.present()[:, None]
    return jax.vmap(model)(shots.x), of_class


def _sums(embedded: Float[Array, "n embedding"], of_class: Bool[Array, "n classes"]) -> ClassSums:
    """For each class, the sum and the number of its embeddings."""
    return of_class.T.astype(embedded.dtype) @ embedded, jnp.sum(of_class, axis=0, dtype=jnp.int32)


def _first(rows: PyTree[Array], size: int) -> Any:
    """The first `size` rows, padded with zeros if there are fewer."""

    def fitted(leaf: Array) -> Array:
        taken = leaf[:size]
        return jnp.pad(taken, [(0, size - taken.shape[0])] + [(0, 0)] * (leaf.ndim - 1))

    return jax.tree.map(fitted, rows)
