"""A learner that behaves, without any of our parts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from anyshot.learners import Learner
from tests.support.learners import N


class Counting(Learner):
    """A learner that behaves: classes by how often they were seen, plus the input."""

    @property
    def wants(self) -> Any:
        return frozenset({"batch"})

    def init(self, key: Any) -> Any:
        return {"seen": jnp.zeros(N)}

    def update(self, state: Any, drawn: Any, key: Any) -> Any:
        seen = 0.5 * state["seen"] + frequencies(drawn.batch)
        return {"seen": seen}, {"loss": jnp.sum(seen)}

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        return jax.vmap(lambda x: x + state["seen"] + frequencies(support))(query)


def frequencies(shots: Any) -> Any:
    of_class = (shots.y[:, None] == jnp.arange(N)) & shots.present()[:, None]
    return jnp.sum(of_class, axis=0) / jnp.maximum(shots.count, 1)
