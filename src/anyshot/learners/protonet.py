"""Incremental ProtoNet: classes by the nearest mean embedding, borrowed from earlier tasks where a task has no shot."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from anyshot.adaptation import Episodes, Shots
from anyshot.errors import InputError
from anyshot.learners.descent import descended, optimiser_state
from anyshot.learners.learner import Drawn, Learner, Want
from anyshot.learners.recipe import Recipe


class ProtoNetState(eqx.Module):
    """The embedding, Adam's memory, and datapoints remembered of earlier tasks."""

    model: PyTree[Any]
    optimiser: PyTree[Any]
    remembered: Shots


class ProtoNet(Learner):
    """Prototypical networks (Snell et al. 2017) for tasks that may have no shot of a class (paper, section 6.2).

    The prototype of a class is the mean embedding of its shots. A class without a shot takes the mean embedding of
    what is remembered of it from earlier tasks; one that nothing is known of takes the mean of all prototypes that are
    known, or the origin if none is. Logits are negative squared distances, so the loss is finite whatever is missing.
    """

    recipe: Recipe = eqx.field(static=True)
    remembered: int = eqx.field(static=True, default=200)

    def __check_init__(self) -> None:
        if not self.recipe.classification:
            raise InputError("protonet needs classes to make prototypes of, and this task set is a regression")
        if self.recipe.example is None:
            raise InputError("example must be shape and dtype of one input and label in protonet's recipe, got None")

    @property
    def wants(self) -> frozenset[Want]:
        """Episodes, and the memory of earlier tasks."""
        return frozenset({"episodes", "memory"})

    def init(self, key: Key[Array, ""]) -> ProtoNetState:
        """Random weights, nothing remembered."""
        model = self.recipe.network(key, self.recipe.embedding)
        x, y = (jnp.zeros((self.remembered, *leaf.shape), leaf.dtype) for leaf in self.recipe.example)
        empty = Shots(x, y, jnp.zeros((), jnp.int32))
        return ProtoNetState(model, optimiser_state(self.recipe.optimiser(), model), empty)

    def update(
        self, state: ProtoNetState, drawn: Drawn, key: Key[Array, ""]
    ) -> tuple[ProtoNetState, dict[str, Float[Array, ""]]]:
        """One step of Adam on the validation loss of the episodes, with classes they lack taken from the memory.

        Of the memory an episode is lent what is of other tasks: when predictions count, it holds nothing of the task.
        """
        assert drawn.episodes is not None
        assert drawn.memory is not None
        assert drawn.episode_task is not None
        assert drawn.memory_task is not None
        episodes, episode_task = drawn.episodes, drawn.episode_task
        remembered, memory_task = self._remembered(drawn.memory), _first(drawn.memory_task, self.remembered)

        @eqx.filter_value_and_grad
        def mean_loss(model: PyTree[Any]) -> Float[Array, ""]:
            embedded, of_class = _embedded(model, remembered, self.recipe.outputs)

            def of_task(one: Episodes, task: Int[Array, ""]) -> Float[Array, ""]:
                of_others = of_class & (memory_task != task)[:, None]
                val = one.val.without_padding_content()
                logits = self._logits(model, one.train, _sums(embedded, of_others), val.x)
                losses = jax.vmap(self.recipe.loss)(logits, val.y)
                return jnp.sum(losses * val.present()) / jnp.maximum(val.count, 1)

            return jnp.mean(jax.vmap(of_task)(episodes, episode_task))

        loss, gradient = mean_loss(state.model)
        model, optimiser = descended(self.recipe.optimiser(), gradient, state.optimiser, state.model)
        return ProtoNetState(model, optimiser, remembered), {"loss": loss}

    def predict(self, state: ProtoNetState, support: Shots, query: PyTree[Array]) -> PyTree[Array]:
        """-|f(x) - c_k|² for every class k."""
        known = _sums(*_embedded(state.model, state.remembered, self.recipe.outputs))
        return self._logits(state.model, support, known, query)

    def recall(self, state: ProtoNetState, memory: Shots) -> ProtoNetState:
        """The task that has just ended is an earlier one now."""
        return ProtoNetState(state.model, state.optimiser, self._remembered(memory))

    def _remembered(self, memory: Shots) -> Shots:
        count = jnp.minimum(memory.count, self.remembered)
        x, y = _first((memory.x, memory.y), self.remembered)
        return Shots(x, y, count).without_padding_content()

    def _logits(
        self, model: PyTree[Any], support: Shots, remembered: ClassSums, query: PyTree[Array]
    ) -> Float[Array, "n classes"]:
        own = _sums(*_embedded(model, support, self.recipe.outputs))
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
    """A prototype for every class: of its own shots, else as remembered, else the mean of those known, else the origin.

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
    """The embedding of every shot, and which class it is of; padding is of none."""
    if shots.size == 0:
        width = jax.eval_shape(jax.vmap(model), shots.x).shape[1]
        return jnp.zeros((0, width)), jnp.zeros((0, classes), bool)
    shots = shots.without_padding_content()
    of_class = (shots.y[:, None] == jnp.arange(classes)) & shots.present()[:, None]
    return jax.vmap(model)(shots.x), of_class


def _sums(embedded: Float[Array, "n embedding"], of_class: Bool[Array, "n classes"]) -> ClassSums:
    """For each class, the sum of the embeddings that are of it, and their number."""
    return of_class.T.astype(embedded.dtype) @ embedded, jnp.sum(of_class, axis=0, dtype=jnp.int32)


def _first(rows: PyTree[Array], size: int) -> Any:
    """The first `size` rows, padded where there are fewer."""

    def fitted(leaf: Array) -> Array:
        taken = leaf[:size]
        return jnp.pad(taken, [(0, size - taken.shape[0])] + [(0, 0)] * (leaf.ndim - 1))

    return jax.tree.map(fitted, rows)
