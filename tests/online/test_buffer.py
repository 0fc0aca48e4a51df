"""Draws from the buffer, for whatever has been received."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from anyshot.online import Buffer, OnlineProtocol, Stream, make_stream
from anyshot.online.buffer import Sizes, draw_episode
from anyshot.tasks import PairTasks, TaskSet
from tests.support.draws import draw_rules, rows_in
from tests.support.online_cases import RUN, WORLD
from tests.support.plain_online.world import shuffled
from tests.support.tiny_tasks import row_numbers

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]

DRAWS = 100
COUNTS = st.lists(st.integers(0, 4), min_size=4, max_size=4).filter(any)
BOTH_KINDS = pytest.mark.parametrize("kind", [TaskSet, PairTasks])
OVERLAP = pytest.mark.parametrize("overlap", [False, True])


@functools.cache
def stream_and_rules(kind: type[TaskSet], overlap: bool) -> tuple[Stream, OnlineProtocol]:
    protocol = draw_rules(overlap=overlap, max_steps=8, validation_size=4 if kind is PairTasks else 3)
    return make_stream(row_numbers(kind), protocol, WORLD), protocol


def buffer_of(received: list[int], order: list[int]) -> Buffer:
    """Counts at four positions; those with data were seen in this order."""
    seen = [p for p in order if received[p]]
    unseen = [p for p in order if not received[p]]
    return Buffer(
        jnp.asarray(received, jnp.int32), jnp.asarray(seen + unseen, jnp.int32), jnp.asarray(len(seen), jnp.int32)
    )


@eqx.filter_jit
def many_draws(stream: Stream, protocol: OnlineProtocol, buffer: Buffer, position: Any, keys: Any) -> Any:
    wants = frozenset({"episodes", "batch", "current", "memory"})
    draws = jax.vmap(lambda key: buffer.draw(stream, protocol, wants, position, key))(keys)
    supports = jax.vmap(lambda key: stream.look_up(buffer.draw_support(Sizes.of(stream), protocol, position, key)))(
        keys
    )
    return draws, supports


def many_more_draws(stream: Stream, protocol: OnlineProtocol, buffer: Buffer) -> Any:
    """Forty times as many, in NumPy, for position 2."""
    parts = [
        many_draws(stream, protocol, buffer, jnp.asarray(2), keys)
        for keys in jax.random.split(RUN, 40 * DRAWS).reshape(40, DRAWS)
    ]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


@given(
    capacity=st.sampled_from([4, 5]),
    arrivals=st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1, 3])), max_size=12),
    first=st.integers(0, 3),
)
def test_the_buffer_counts_what_arrives(capacity: int, arrivals: list[tuple[int, int]], first: int) -> None:
    """Against a plain count, from a start with `first` positions full."""
    received, seen = [capacity] * first + [0] * (4 - first), list(range(first))
    buffer = Buffer(jnp.asarray(received, jnp.int32), jnp.arange(4, dtype=jnp.int32), jnp.asarray(first, jnp.int32))
    for position, count in arrivals:
        buffer = receive(buffer, jnp.asarray(position, jnp.int32), count, jnp.asarray(capacity, jnp.int32))
        if not received[position]:
            seen.append(position)
        received[position] = min(received[position] + count, capacity)
    assert buffer.received.tolist() == received
    assert buffer.seen[: int(buffer.seen_count)].tolist() == seen
    assert int(buffer.seen_count) == len(seen)


receive = eqx.filter_jit(Buffer.receive)


def test_pretraining_tasks_are_there_with_all_their_data_at_the_start() -> None:
    stream, _ = stream_and_rules(TaskSet, False)
    buffer = Buffer.empty(stream, draw_rules(pretrain_tasks=2, pretrain_steps=1))
    assert buffer.received.tolist() == [8, 8, 0, 0]
    assert buffer.seen[: int(buffer.seen_count)].tolist() == [0, 1]


@BOTH_KINDS
@OVERLAP
@given(
    halves=COUNTS,
    odd=st.booleans(),
    order=st.permutations(range(4)),
    position=st.integers(0, 3),
    seed=st.integers(0, 99),
)
@settings(max_examples=15)
def test_draws_hold_what_has_been_received_and_nothing_else(
    kind: type[TaskSet], overlap: bool, halves: list[int], odd: bool, order: list[int], position: int, seed: int
) -> None:
    stream, protocol = stream_and_rules(kind, overlap)
    unit = stream.tasks.unit
    received = [max(0, 2 * half - (odd and unit == 1)) for half in halves]
    assume(any(received))
    keys = jax.random.split(jax.random.key(seed), DRAWS)
    draws, supports = jax.tree.map(
        np.asarray, many_draws(stream, protocol, buffer_of(received, order), jnp.asarray(position), keys)
    )
    # Of pairs the same one can be drawn into two places, so a row stands for every place it is at.
    train_rows = np.asarray(stream.train_rows).tolist()

    def arrived(p: int, limit: int) -> Counter[Any]:
        return Counter(tuple(row) if isinstance(row, list) else row for row in train_rows[p][: min(limit, received[p])])

    everything = sum((arrived(p, 99) for p in range(4)), Counter())
    memory = sum((arrived(p, protocol.memory_per_task) for p in range(position)), Counter())
    for draw in range(8):
        for task in range(protocol.tasks_per_update):
            train, val = (rows_in(part, draw, task) for part in (draws.episodes.train, draws.episodes.val))
            homes = [p for p in range(4) if set(train + val) <= set(arrived(p, 99))]
            assert len(homes) >= 1, "of one task, and only of what it has received"
            most = max(received[p] for p in homes)
            assert len(train) <= min(most if overlap else most // 2, protocol.max_shots)
            assert 1 <= len(val) <= protocol.validation_size
            assert any(
                (not overlap and not Counter(train + val) - arrived(p, 99))  # distinct and disjoint
                or (overlap and not Counter(train) - arrived(p, 99) and not Counter(val) - arrived(p, 99))
                for p in homes
            )
        assert len(rows_in(draws.batch, draw)) == protocol.batch_size
        assert set(rows_in(draws.batch, draw)) <= set(everything)
        assert len(rows_in(draws.current, draw)) == protocol.batch_size
        own = arrived(position, 99) if received[position] else everything  # in pretraining all tasks are current
        assert set(rows_in(draws.current, draw)) <= set(own)
        assert len(rows_in(draws.memory, draw)) == (protocol.batch_size if memory else 0)
        assert set(rows_in(draws.memory, draw)) <= set(memory)
        support = rows_in(supports, draw)
        assert len(support) == min(received[position] // protocol.points_per_shot, protocol.max_shots)
        assert not Counter(support) - arrived(position, 99)
        if unit == 2:
            parts = [(draws.batch, draw), (draws.current, draw), (draws.memory, draw), (supports, draw)]
            parts += [(one, (draw, task)) for one in (draws.episodes.train, draws.episodes.val) for task in range(3)]
            for shots, index in parts:
                labels = shots.y[index][: int(shots.count[index])]
                assert 2 * labels.sum() == len(labels)


def uniform(counts: Any) -> bool:
    return bool(chisquare(counts).pvalue > 1e-4)


@BOTH_KINDS
@OVERLAP
def test_tasks_are_uniform_over_those_seen_and_shots_over_their_range(kind: type[TaskSet], overlap: bool) -> None:
    stream, protocol = stream_and_rules(kind, overlap)
    buffer = buffer_of([4, 0, 8, 2], [2, 0, 1, 3])
    draws, _ = many_more_draws(stream, protocol, buffer)
    train, val = draws.episodes.train, draws.episodes.val
    reference_row = val.x[..., 0] if kind is TaskSet else val.x[..., 0, 0]
    task = (reference_row // 12).astype(int)  # rows 12 j .. 12 j + 11 are of task j
    seen = {int(stream.order[position]): count for position, count in ((0, 4), (2, 8), (3, 2))}
    assert set(np.unique(task)) == set(seen)
    assert uniform([(task == one).sum() for one in seen])
    for one, received in seen.items():
        largest = min(received if overlap else received // 2, protocol.max_shots)
        possible = list(range(0, largest + 1, stream.tasks.unit))
        shots = train.count[task == one]
        assert set(shots) == set(possible)
        assert len(possible) == 1 or uniform([(shots == k).sum() for k in possible])


@OVERLAP
def test_every_datapoint_is_as_likely_a_shot_a_validation_point_and_in_the_batch(overlap: bool) -> None:
    stream, protocol = stream_and_rules(TaskSet, overlap)
    received = [3, 0, 8, 1]
    draws, supports = many_more_draws(stream, protocol, buffer_of(received, [2, 0, 3, 1]))
    order = np.asarray(stream.train_rows)
    of_task = {p: order[p, : received[p]] for p in range(4)}
    for part in (draws.episodes.train, draws.episodes.val, supports):
        x, count = np.asarray(part.x).reshape(-1, part.x.shape[-1]), np.asarray(part.count).reshape(-1)
        present = x[np.arange(x.shape[1]) < count[:, None]]
        assert uniform([(present == row).sum() for row in of_task[2]])
    assert uniform([(np.asarray(draws.batch.x) == row).sum() for p in (0, 2, 3) for row in of_task[p]])
    assert uniform([(np.asarray(draws.current.x) == row).sum() for row in of_task[2]])
    assert uniform([(np.asarray(draws.memory.x) == row).sum() for row in of_task[0][: protocol.memory_per_task]])
    assert set(np.unique(draws.memory.x)) == set(of_task[0][: protocol.memory_per_task].tolist())


@pytest.mark.parametrize("validation_size", [1, 20])
@given(bits=st.lists(st.integers(0, 2**32 - 1), min_size=9, max_size=9), received=st.integers(1, 8))
@settings(max_examples=15)
def test_an_episode_is_right_for_all_bits_there_can_be(validation_size: int, bits: list[int], received: int) -> None:
    """Ties and the largest numbers among them; with a cap on validation that binds, and one that never does."""
    stream, _ = stream_and_rules(TaskSet, False)
    protocol = draw_rules(validation_size=validation_size, max_shots=20, max_steps=8)
    train, val = look_up_episode(stream, protocol, jnp.asarray(received), jnp.asarray(bits, jnp.uint32))
    arrived = [(row, 0, 0) for row in np.asarray(stream.train_rows[1]).tolist()[:received]]
    shots = bits[0] % (received // 2 + 1)
    order = [row for row, _, _ in shuffled(arrived, bits[1:], 1)]
    assert rows_in(train) == order[:shots]
    assert rows_in(val) == order[shots : shots + validation_size]


@eqx.filter_jit
def look_up_episode(stream: Stream, protocol: OnlineProtocol, received: Any, bits: Any) -> Any:
    """An episode of the task at position 1."""
    return tuple(map(stream.look_up, draw_episode(Sizes.of(stream), protocol, jnp.asarray(1), received, bits)))
