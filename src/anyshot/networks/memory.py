"""A network that reads labelled examples one after another and answers a query with what it remembers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree, Shaped

from anyshot.networks.layers import Linear, leaky_relu


class Memory(eqx.Module):
    """MANN's network (appendix D): features of image and label, a GRU over the shots, a linear head on its summary.

    A shot is the features of its input joined with the embedding of its label; the GRU's state after the last shot is
    the summary, and zeros before the first. The head sees the summary joined with the features of the query. A linear
    head adds up what it sees in both, so that shots shift the outputs of all queries alike; with a hidden layer before
    it, what the shots change may depend on the query.

    Args:
        features: one input -> `width` numbers; shots and queries share it.
        outputs: number of classes, or of components of a target.
        classification: whether labels are classes, which are embedded by a table; targets are by a linear layer.
        width: of the features, the embedding and the summary.
        hidden: units of a hidden layer with a leaky ReLU before the head; 0 for none, as in the paper.
        key: draws the initial weights.

    >>> from anyshot.networks import MLP
    >>> one, two = jax.random.split(jax.random.key(0))
    >>> memory = Memory(MLP((3, 8, 4), key=one), 5, True, 4, key=two)
    >>> summary = memory.summary(jnp.ones((6, 3)), jnp.zeros(6, int), jnp.arange(6) < 2)
    >>> print(summary.shape, memory(summary, jnp.ones(3)).shape)
    (4,) (5,)
    """

    features: Callable[[Any], Float[Array, " width"]]
    embedding: Linear  # of a class as a unit vector, or of a target
    gru: eqx.nn.GRUCell
    hidden: Linear | None
    head: Linear
    classes: int | None = eqx.field(static=True)

    def __init__(
        self,
        features: Callable[[Any], Float[Array, " width"]],
        outputs: int,
        classification: bool,
        width: int = 256,
        hidden: int = 0,
        *,
        key: Key[Array, ""],
    ):
        of_embedding, of_gru, of_head = jax.random.split(key, 3)
        self.features = features
        self.embedding = Linear(outputs, width, key=of_embedding)
        self.gru = eqx.nn.GRUCell(2 * width, width, key=of_gru)
        if hidden:
            of_hidden, of_head = jax.random.split(of_head)
            self.hidden = Linear(2 * width, hidden, key=of_hidden)
        else:
            self.hidden = None
        self.head = Linear(hidden or 2 * width, outputs, key=of_head)
        self.classes = outputs if classification else None

    def summary(
        self, x: PyTree[Shaped[Array, "shots ..."]], y: Shaped[Array, "shots ..."], present: Bool[Array, " shots"]
    ) -> Float[Array, " width"]:
        """What is remembered of the shots that are present, read in their order."""
        shots = jnp.concatenate([jax.vmap(self.features)(x), jax.vmap(self._embedded)(y)], axis=1)

        def read(
            state: Float[Array, " width"], one: tuple[Float[Array, " both"], Bool[Array, ""]]
        ) -> tuple[Float[Array, " width"], None]:
            shot, is_there = one
            with jax.default_matmul_precision("highest"):  # as in all our layers: see convolution.py
                return jnp.where(is_there, self.gru(shot, state), state), None

        start = jnp.zeros(self.gru.hidden_size, shots.dtype)
        return jax.lax.scan(read, start, (shots, present))[0]

    def __call__(self, summary: Float[Array, " width"], x: PyTree[Shaped[Array, "..."]]) -> Float[Array, " outputs"]:
        """Outputs for one query."""
        both = jnp.concatenate([summary, self.features(x)])
        return self.head(both if self.hidden is None else leaky_relu(self.hidden(both)))

    def _embedded(self, y: Shaped[Array, "..."]) -> Float[Array, " width"]:
        if self.classes is None:
            return self.embedding(y.reshape(-1))
        return self.embedding(jax.nn.one_hot(y, self.classes, dtype=self.embedding.weight.dtype))
