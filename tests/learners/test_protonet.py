"""ProtoNet against naive loops over classes and datapoints."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anyshot import Episodes, Shots
from anyshot.learners import Drawn
from tests.support.learners import INPUT, KEY, N, build, some, stacked
from tests.support.refusals import assert_refused

pytestmark = pytest.mark.usefixtures("quick_compilation")


def protonet_by_hand(model: Any, own: Any, remembered: Any, query: Any) -> Any:
    """Own shots, else what is remembered, else the mean of the prototypes there are, else the origin."""
    prototypes: dict[int, Any] = {}
    for k in range(N):
        for x, y in (own, remembered):
            embedded = [np.asarray(model(one)) for one, label in zip(x, y, strict=True) if label == k]
            if embedded and k not in prototypes:
                prototypes[k] = sum(embedded) / len(embedded)
    centre = sum(prototypes.values()) / len(prototypes) if prototypes else np.zeros(N)
    logits = np.zeros((len(query), N))
    for i, x in enumerate(query):
        for k in range(N):
            logits[i, k] = -np.sum((np.asarray(model(x)) - prototypes.get(k, centre)) ** 2)
    return logits


def labelled(labels: list[int], seed: int, size: int) -> Shots:
    """Shots with these labels, and behind them something else."""
    x = jnp.asarray(np.random.default_rng(seed).normal(size=(size, N)))
    y = jnp.asarray((labels + [2] * size)[:size], jnp.int32)
    return Shots(x, y, jnp.asarray(len(labels), jnp.int32))


def datapoints(shots: Shots) -> tuple[Any, Any]:
    return shots.x[: int(shots.count)], np.asarray(shots.y)[: int(shots.count)].tolist()


PROTONET = build("protonet", remembered=5)
PROTONET_PREDICT = jax.jit(PROTONET.predict)
PROTONET_UPDATE = jax.jit(PROTONET.update)


@pytest.mark.parametrize(
    ("own", "remembered"),
    [
        ([0, 1, 2, 1], []),  # own shots of every class
        ([0, 1, 2, 1], [0, 1, 2]),  # they go before what is remembered
        ([1, 1], [0, 1, 2, 0]),  # two classes are borrowed
        ([1, 1], [0, 1]),  # class 2 is unknown: the mean of the other two
        ([], [2, 0]),  # zero shots: all borrowed, class 1 the mean
        ([1], []),  # one is known, and the others take its place
        ([], []),  # nothing is known at all: the origin, for every class
    ],
)
def test_prototypes_are_own_else_remembered_else_the_mean_else_the_origin(own: Any, remembered: Any) -> None:
    support, memory, query = labelled(own, 1, size=4), labelled(remembered, 2, size=5), some(4, seed=3).x
    state = dataclasses.replace(PROTONET.init(KEY), remembered=memory)
    logits = PROTONET_PREDICT(state, support, query)
    assert np.isfinite(logits).all()
    by_hand = protonet_by_hand(state.model, datapoints(support), datapoints(memory), query)
    np.testing.assert_allclose(logits, by_hand, rtol=1e-10)
    if not own and not remembered:
        embedded = jax.vmap(state.model)(query)
        np.testing.assert_allclose(logits, -np.sum(embedded**2, axis=1, keepdims=True) * np.ones(N), rtol=1e-10)


def protonet_draw() -> Drawn:
    train = stacked(labelled([], 1, 4), labelled([1], 2, 4), labelled([0, 0, 1, 2], 3, 4))
    val = stacked(labelled([0, 1], 4, 4), labelled([2, 0, 1], 5, 4), labelled([1, 1, 2, 0], 6, 4))
    # The first episode has nothing in the memory, the second the only 0, the third a 2 which it has a shot of anyway.
    tasks = {"episode_task": jnp.array([5, 1, 3], jnp.int32), "memory_task": jnp.array([1, 3, 0, 3, 3, 3], jnp.int32)}
    return Drawn(episodes=Episodes(train, val), memory=labelled([0, 2, 2], 7, 6), **tasks)


def protonet_loss_by_hand(model: Any, drawn: Drawn) -> float:
    episodes, total = drawn.episodes, 0.0
    for task in range(episodes.num_tasks):
        train, val = (jax.tree.map(lambda leaf, t=task: leaf[t], part) for part in (episodes.train, episodes.val))
        x, y = datapoints(val)
        others = np.asarray(drawn.memory_task)[: int(drawn.memory.count)] != int(drawn.episode_task[task])
        lent = tuple(jnp.asarray(part)[others] for part in datapoints(drawn.memory))
        logits = protonet_by_hand(model, datapoints(train), lent, x)
        likely = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        total += -np.mean([np.log(likely[i, label]) for i, label in enumerate(y)])
    return total / episodes.num_tasks


def test_protonet_learns_from_the_loss_of_its_prototypes() -> None:
    state, drawn = PROTONET.init(KEY), protonet_draw()
    after, metrics = PROTONET_UPDATE(state, drawn, KEY)
    np.testing.assert_allclose(metrics["loss"], protonet_loss_by_hand(state.model, drawn), rtol=1e-10)
    assert after.remembered.count == 3
    np.testing.assert_array_equal(after.remembered.x[:3], drawn.memory.x[:3])


def test_protonet_gradient_by_finite_differences() -> None:
    state, drawn = PROTONET.init(KEY), protonet_draw()
    after, _ = PROTONET_UPDATE(state, drawn, KEY)
    leaves, structure = jax.tree.flatten(state.model)

    def loss(leaf: int, index: Any, change: float) -> float:
        moved = [np.array(each) for each in leaves]
        moved[leaf][index] += change
        model = jax.tree.unflatten(structure, [jnp.asarray(each) for each in moved])
        return float(PROTONET_UPDATE(dataclasses.replace(state, model=model), drawn, KEY)[1]["loss"])

    for number, moment in enumerate(jax.tree.leaves(after.optimiser[1][0].mu)):
        for index in np.ndindex(moment.shape):
            slope = (loss(number, index, 1e-5) - loss(number, index, -1e-5)) / 2e-5
            np.testing.assert_allclose(moment[index] / 0.1, slope, rtol=0, atol=1e-7)


def test_protonet_with_nothing_known_has_a_finite_loss_and_gradient() -> None:
    nothing = labelled([], 1, 4)
    drawn = Drawn(episodes=Episodes(stacked(nothing), stacked(labelled([0, 2], 4, 4))), memory=labelled([], 7, 6))
    drawn = dataclasses.replace(drawn, episode_task=jnp.zeros(1, jnp.int32), memory_task=jnp.ones(6, jnp.int32))
    after, metrics = jax.jit(PROTONET.update)(PROTONET.init(KEY), drawn, KEY)
    np.testing.assert_allclose(metrics["loss"], np.log(N), rtol=1e-12)  # every class as likely as the other
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(after))


def test_a_regression_is_refused_before_a_network_is_made() -> None:
    def never(key: Any, outputs: int) -> Any:
        raise AssertionError("a network was made")

    assert_refused(lambda: build("protonet", network=never, example=(INPUT, INPUT)), ["protonet", "class", "float64"])
