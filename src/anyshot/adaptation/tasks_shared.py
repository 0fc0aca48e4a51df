"""A mean over tasks whose tasks are shared out among devices. Each sums over its share, and the sums are added."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec
from jaxtyping import Array, Float, Int, PyTree

from anyshot.adaptation.tasks_in_turn import sum_in_turn
from anyshot.devices import TASKS, task_mesh
from anyshot.shots import Episodes

TaskLoss = Callable[[PyTree[Any], Episodes], Float[Array, ""]]
OfTask = Callable[[Any, Episodes], PyTree[Array]]


def mean_over_tasks(
    task_loss: TaskLoss, parameters: PyTree[Any], episodes: Episodes, at_once: int | None
) -> Float[Array, ""]:
    """Mean of `task_loss(parameters, episode)` over tasks, on all devices of `anyshot.devices.task_mesh`.

    Args:
        task_loss: of one task.
        parameters: that the gradient is for.
        episodes: of all tasks.
        at_once: how many tasks a device batches at a time; None: it takes one after another, each in its own padding.
    """
    if at_once == episodes.num_tasks and task_mesh() is None:
        return jnp.mean(jax.vmap(lambda one: task_loss(parameters, one))(episodes))
    theta, rest = eqx.partition(parameters, eqx.is_inexact_array)
    arrays, static = eqx.partition(rest, eqx.is_array)

    def value(theta: PyTree[Any], arrays: PyTree[Any], episodes: Episodes) -> Float[Array, ""]:
        def of_task(both: tuple[PyTree[Any], PyTree[Any]], one: Episodes) -> Float[Array, ""]:
            return task_loss(eqx.combine(*both, static), one)

        return _sum_over_tasks(of_task, (theta, arrays), episodes, at_once) / episodes.num_tasks

    def value_and_gradient(theta: PyTree[Any], arrays: PyTree[Any], episodes: Episodes) -> tuple[Array, PyTree[Any]]:
        def of_task(both: tuple[PyTree[Any], PyTree[Any]], one: Episodes) -> tuple[Array, PyTree[Any]]:
            return jax.value_and_grad(lambda at: task_loss(eqx.combine(at, both[1], static), one))(both[0])

        total = _sum_over_tasks(of_task, (theta, arrays), episodes, at_once)
        return jax.tree.map(lambda leaf: leaf / episodes.num_tasks, total)

    @jax.custom_vjp
    def mean(theta: PyTree[Any], arrays: PyTree[Any], episodes: Episodes) -> Float[Array, ""]:
        return value(theta, arrays, episodes)

    def backward(gradient: PyTree[Any], g: Float[Array, ""]) -> tuple[PyTree[Any], None, None]:
        return jax.tree.map(lambda leaf: g.astype(leaf.dtype) * leaf, gradient), None, None

    mean.defvjp(value_and_gradient, backward)
    return mean(theta, arrays, episodes)


def _sum_over_tasks(of_task: OfTask, parameters: PyTree[Any], episodes: Episodes, at_once: int | None) -> PyTree[Array]:
    mesh = task_mesh()
    sum_share = sum_in_turn if at_once is None else functools.partial(_sum_in_groups, at_once)
    if mesh is None or episodes.num_tasks < 2:
        return sum_share(of_task, parameters, episodes, jnp.arange(episodes.num_tasks))

    def share(parameters: PyTree[Any], episodes: Episodes, tasks: Int[Array, " share"]) -> PyTree[Array]:
        return lax.psum(sum_share(of_task, parameters, episodes, tasks), TASKS)

    replicated, split = PartitionSpec(), PartitionSpec(TASKS)
    return jax.shard_map(
        share, mesh=mesh, in_specs=(replicated, replicated, split), out_specs=replicated, check_vma=False
    )(parameters, episodes, _dealt_out(episodes.train.count, mesh.size))


def _dealt_out(count: Int[Array, " tasks"], devices: int) -> Int[Array, " padded"]:
    """Task numbers in the order of their shots, dealt to devices in turn; -1 fills up the last round."""
    order = jnp.argsort(-count)
    filled = jnp.pad(order, (0, -len(order) % devices), constant_values=-1)
    return filled.reshape(-1, devices).T.reshape(-1)


def _sum_in_groups(
    largest: int, of_task: OfTask, parameters: PyTree[Any], episodes: Episodes, tasks: Int[Array, " n"]
) -> PyTree[Array]:
    """Sum `of_task` over the tasks numbered, at most so many batched at a time; -1 stands for no task."""
    groups = -(-len(tasks) // largest)

    def of_group(tasks: Int[Array, " size"]) -> PyTree[Array]:
        found = jax.vmap(lambda task: of_task(parameters, jax.tree.map(lambda leaf: leaf[task], episodes)))(tasks)
        there = tasks >= 0

        def total(leaf: Array) -> Array:
            return jnp.sum(jnp.where(there.reshape((-1,) + (1,) * (leaf.ndim - 1)), leaf, 0), axis=0)

        return jax.tree.map(total, found)

    if groups == 1:
        return of_group(tasks)
    dealt = jnp.pad(tasks, (0, -len(tasks) % groups), constant_values=-1).reshape(groups, -1)
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(of_group, dealt[0]))
    return lax.scan(lambda total, group: (jax.tree.map(jnp.add, total, of_group(group)), None), zero, dealt)[0]
