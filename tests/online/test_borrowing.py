"""Batches over several tasks, and datapoints of earlier tasks for classes without a shot, against plain lists."""

from __future__ import annotations

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyshot.online import Stream, flat, make_stream
from anyshot.online.borrowing import fill_missing_classes
from anyshot.online.places import Places
from anyshot.tasks import PairTasks, TaskSet
from tests.support.draws import draw_rules
from tests.support.online_cases import WORLD
from tests.support.plain_online.world import World, draw_flat, make_world, with_all_classes
from tests.support.tiny_tasks import classification, row_numbers

pytestmark = pytest.mark.usefixtures("quick_compilation")

SIZE = 6
RECEIVED = st.lists(st.integers(0, 4), min_size=4, max_size=4)


@functools.cache
def world_of(kind: type[TaskSet] | None) -> tuple[Stream, World]:
    """Row numbers, or three classes."""
    tasks, rules = row_numbers(kind) if kind else classification(), draw_rules(num_tasks=4, max_steps=8)
    return make_stream(tasks, rules, WORLD), make_world(tasks, rules, WORLD)


@eqx.filter_jit
def draw_batch(stream: Stream, received: Any, key: Any) -> Any:
    places = flat.draw_flat(received, stream.tasks.unit, SIZE, key)
    return stream.look_up(places), places.position


@pytest.mark.parametrize("kind", [TaskSet, PairTasks])
@given(received=RECEIVED, seed=st.integers(0, 99))
@settings(max_examples=20)
def test_a_batch_is_that_of_the_plain_lists(kind: type[TaskSet], received: list[int], seed: int) -> None:
    stream, world = world_of(kind)
    key = jax.random.key(seed)
    if kind is PairTasks:
        received = [2 * count for count in received]
    shots, positions = draw_batch(stream, jnp.asarray(received, jnp.int32), key)
    tasks = [[(p, point) for point in world.train[p][:count]] for p, count in enumerate(received)]
    expected = draw_flat(world, tasks, SIZE, key)
    assert int(shots.count) == len(expected) == (SIZE if any(received) else 0)
    assert positions[: len(expected)].tolist() == [p for p, _ in expected]
    inputs = [x for _, (_, x, _) in expected]
    np.testing.assert_array_equal(shots.x[: len(expected)], np.reshape(inputs, (-1, *shots.x.shape[1:])))


@eqx.filter_jit
def fill(stream: Stream, received: Any, position: Any, shots: Any, key: Any) -> Any:
    return fill_missing_classes(stream, received, position, shots, key)


@given(received=RECEIVED, position=st.integers(0, 3), count=st.integers(0, 3), seed=st.integers(0, 99))
@settings(max_examples=30)
def test_missing_classes_are_filled_from_earlier_tasks(
    received: list[int], position: int, count: int, seed: int
) -> None:
    stream, world = world_of(None)
    key, count = jax.random.key(seed), min(count, received[position])
    places = jnp.asarray([2, 0, 1], jnp.int32)
    shots = stream.look_up(Places(jnp.asarray(position), places, jnp.asarray(count, jnp.int32)))
    own = [world.train[position][place] for place in (2, 0, 1)][:count]
    earlier = [world.train[p][: received[p]] for p in range(position)]
    expected = with_all_classes(world, earlier, own, key)
    filled = fill(stream, jnp.asarray(received, jnp.int32), jnp.asarray(position), shots, key)
    assert int(filled.count) == len(expected)
    assert filled.y[: len(expected)].tolist() == [int(y) for _, _, y in expected]
    np.testing.assert_array_equal(filled.x[: len(expected)], np.reshape([x for _, x, _ in expected], (-1, 4)))
    known = {int(y) for points in [own, *earlier] for _, _, y in points}
    assert set(filled.y[: len(expected)].tolist()) == known  # no class that someone has is missing
