"""A mean over tasks computed one task after another, each in the smallest padding that holds its shots.

On a CPU this beats batching the tasks: a task's arrays stay in the cache, its gradients are added up at once, and a
task with few shots costs little. On several CPU devices (see `anyshot.use_cpu_cores`) each takes a share of the tasks,
dealt out by the number of shots so that all finish at about the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec
from jaxtyping import Array, Float, Int, PyTree

from anyshot.shots import Episodes

TaskLoss = Callable[[PyTree[Any], Episodes], Float[Array, ""]]
OfTask = Callable[[Any, Episodes], PyTree[Array]]
PADDINGS = 4  # sizes that a task's shots may be padded to; each costs compile time, more waste less


def mean_in_turn(task_loss: TaskLoss, parameters: PyTree[Any], episodes: Episodes) -> Float[Array, ""]:
    """Mean of `task_loss(parameters, episode)` over tasks; its gradient is computed in the same pass."""
    theta, rest = eqx.partition(parameters, eqx.is_inexact_array)
    arrays, static = eqx.partition(rest, eqx.is_array)

    def value(theta: PyTree[Any], arrays: PyTree[Any], episodes: Episodes) -> Float[Array, ""]:
        def of_task(both: tuple[PyTree[Any], PyTree[Any]], one: Episodes) -> Float[Array, ""]:
            return task_loss(eqx.combine(*both, static), one)

        return _sum_over_tasks(of_task, (theta, arrays), episodes) / episodes.num_tasks

    def value_and_gradient(theta: PyTree[Any], arrays: PyTree[Any], episodes: Episodes) -> tuple[Array, PyTree[Any]]:
        def of_task(both: tuple[PyTree[Any], PyTree[Any]], one: Episodes) -> tuple[Array, PyTree[Any]]:
            return jax.value_and_grad(lambda at: task_loss(eqx.combine(at, both[1], static), one))(both[0])

        total = _sum_over_tasks(of_task, (theta, arrays), episodes)
        return jax.tree.map(lambda leaf: leaf / episodes.num_tasks, total)

    @jax.custom_vjp
    def mean(theta: PyTree[Any], arrays: PyTree[Any], episodes: Episodes) -> Float[Array, ""]:
        return value(theta, arrays, episodes)

    def backward(gradient: PyTree[Any], g: Float[Array, ""]) -> tuple[PyTree[Any], None, None]:
        return jax.tree.map(lambda leaf: g.astype(leaf.dtype) * leaf, gradient), None, None

    mean.defvjp(value_and_gradient, backward)
    return mean(theta, arrays, episodes)


def _sum_over_tasks(of_task: OfTask, parameters: PyTree[Any], episodes: Episodes) -> PyTree[Array]:
    devices = jax.local_devices(backend="cpu") if jax.default_backend() == "cpu" else []
    if len(devices) < 2 or episodes.num_tasks < 2:
        return _scan(of_task, parameters, episodes, jnp.arange(episodes.num_tasks))
    mesh = jax.make_mesh((len(devices),), ("tasks",), axis_types=(AxisType.Auto,), devices=devices)

    def share(parameters: PyTree[Any], episodes: Episodes, tasks: Int[Array, " share"]) -> PyTree[Array]:
        return lax.psum(_scan(of_task, parameters, episodes, tasks), "tasks")

    replicated, split = PartitionSpec(), PartitionSpec("tasks")
    return jax.shard_map(
        share, mesh=mesh, in_specs=(replicated, replicated, split), out_specs=replicated, check_vma=False
    )(parameters, episodes, _dealt_out(episodes.train.count, len(devices)))


def _dealt_out(count: Int[Array, " tasks"], devices: int) -> Int[Array, " padded"]:
    """Task numbers in the order of their shots, dealt to devices in turn; -1 fills up the last round."""
    order = jnp.argsort(-count)
    filled = jnp.pad(order, (0, -len(order) % devices), constant_values=-1)
    return filled.reshape(-1, devices).T.reshape(-1)


def _scan(of_task: OfTask, parameters: PyTree[Any], episodes: Episodes, tasks: Int[Array, " n"]) -> PyTree[Array]:
    """Sum `of_task` over the tasks numbered; -1 stands for no task."""
    largest = episodes.train.size
    sizes = sorted({-(-largest * part // PADDINGS) for part in range(1, PADDINGS + 1)})
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
