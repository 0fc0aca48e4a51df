"""A sum over tasks computed one task after another, each in the smallest padding that holds its shots.

On a CPU this beats batching the tasks: a task's arrays stay in the cache, its gradients are added up at once, and a
task with few shots costs little. On a GPU that one task fills it takes the memory of one task instead of all, so that
nothing has to be computed twice. Convolutions there leave padding out, so one padding has to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int, PyTree

from anyshot.shots import Episodes

OfTask = Callable[[Any, Episodes], PyTree[Array]]
PADDINGS = 4  # sizes that a task's shots may be padded to on a CPU; each costs compile time, more waste less


def sum_in_turn(of_task: OfTask, parameters: PyTree[Any], episodes: Episodes, tasks: Int[Array, " n"]) -> PyTree[Array]:
    """Sum `of_task` over the tasks numbered; -1 stands for no task."""
    largest, paddings = episodes.train.size, PADDINGS if jax.default_backend() == "cpu" else 1
    sizes = sorted({-(-largest * part // paddings) for part in range(1, paddings + 1)})
    zero = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype),
        jax.eval_shape(of_task, parameters, jax.tree.map(lambda leaf: leaf[0], episodes)),
    )

    def padded_to(size: int) -> Callable[[Episodes], PyTree[Array]]:
        return lambda one: of_task(parameters, Episodes(one.train.first(size), one.val))

    branches = [lambda one: zero, *(padded_to(size) for size in sizes)]

    def add(total: PyTree[Array], task: Int[Array, ""]) -> tuple[PyTree[Array], None]:
        one = jax.tree.map(lambda leaf: leaf[task], episodes)
        smallest = 1 + jnp.searchsorted(jnp.asarray(sizes), one.train.count)
        result = lax.switch(jnp.where(task < 0, 0, smallest), branches, one)
        return jax.tree.map(jnp.add, total, result), None

    return lax.scan(add, zero, tasks)[0]
