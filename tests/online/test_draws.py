"""Everything that a run draws, against the draws of the plain loop."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anyshot.learners import Drawn, Learner
from anyshot.online import OnlineLoop, Record, make_stream
from anyshot.tasks import PairTasks, TaskSet
from tests.support.draws import draw_rules, rows_in
from tests.support.online_cases import DISPATCH, RUN, START, WORLD, ran
from tests.support.plain_online import algorithm
from tests.support.plain_online.derivatives import Var
from tests.support.plain_online.world import make_world
from tests.support.tiny_tasks import row_numbers

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.slow]


class Recorder(Learner):
    """Its state is everything it was given; its output is the sum of 2^row over the support, which says what it is."""

    updates: int = eqx.field(static=True)

    @property
    def wants(self) -> Any:
        return frozenset({"episodes", "batch", "current", "memory"})

    def init(self, key: Any) -> Any:
        return {"number": jnp.zeros((), jnp.int32), "drawn": None, "float": jnp.zeros(())}

    def update(self, state: Any, drawn: Drawn, key: Any) -> Any:
        kept = jax.tree.map(lambda all_, one: all_.at[state["number"]].set(one), state["drawn"], drawn)
        return state | {"number": state["number"] + 1, "drawn": kept}, {"loss": jnp.zeros(())}

    def predict(self, state: Any, support: Any, query: Any) -> Any:
        codes = (2.0**support.x).reshape(support.size, -1).sum(axis=1)
        return jnp.full(query.shape[0], jnp.sum(jnp.where(support.present(), codes, 0)))


class Silent:
    """The plain counterpart: learns nothing."""

    def update(self, drawn: Any, key: Any) -> float:
        return 0.0

    def predict(self, support: Any, inputs: list[Any]) -> Any:
        return Var(np.zeros(len(inputs)))

    def rates(self) -> None:
        return None


def the_output(output: Any, target: Any) -> Any:
    return output


RECORDED = [
    (kind, {"overlap": overlap, "pretrain_tasks": pretrain, "pretrain_steps": 2 * pretrain, "shuffle_tasks": shuffle})
    for kind, overlap, pretrain, shuffle in [
        (TaskSet, False, 0, True),
        (TaskSet, True, 1, False),
        (PairTasks, False, 1, True),
        (PairTasks, True, 0, True),
    ]
]


@functools.cache
def recorded(number: int) -> tuple[Drawn, Record, algorithm.Run]:
    """Everything drawn in a run, by the compiled loop and by the plain one."""
    kind, changes = RECORDED[number]
    protocol, tasks = draw_rules(**changes), row_numbers(kind)
    stream = make_stream(tasks, protocol, WORLD)
    updates = protocol.steps_per_arrival * (stream.positions * protocol.rounds + protocol.pretrain_rounds)
    loop = OnlineLoop(Recorder(updates), protocol, the_output, False, dispatch=DISPATCH)
    state = loop.start(stream, START)
    wants, zero = loop.learner.wants, jnp.zeros((), jnp.int32)
    shapes = jax.eval_shape(lambda: state.buffer.draw(stream, protocol, wants, zero, START))
    room = jax.tree.map(lambda leaf: jnp.zeros((updates, *leaf.shape), leaf.dtype), shapes)
    state = eqx.tree_at(lambda s: s.learner["drawn"], state, room, is_leaf=lambda leaf: leaf is None)
    state, records = ran(loop, stream, state, [DISPATCH])
    result = algorithm.run(make_world(tasks, protocol, WORLD), protocol, Silent(), False, RUN)
    assert int(state.learner["number"]) == len(result.draws)
    return jax.tree.map(np.asarray, state.learner["drawn"]), records, result


@pytest.mark.parametrize("number", range(len(RECORDED)))
def test_the_draws_are_those_of_the_plain_loop(number: int) -> None:
    drawn, records, result = recorded(number)
    for update, expected in enumerate(result.draws):
        for name in ("batch", "current", "memory"):
            rows = [row for row, _, _ in getattr(expected, name)]
            assert rows_in(getattr(drawn, name), update) == rows, name
        count = int(drawn.memory.count[update])
        assert drawn.memory_task[update, :count].tolist() == expected.memory_task
        assert drawn.episode_task[update].tolist() == [position for position, _, _ in expected.episodes]
        for task, (_, train, val) in enumerate(expected.episodes):
            assert rows_in(drawn.episodes.train, update, task) == [row for row, _, _ in train]
            assert rows_in(drawn.episodes.val, update, task) == [row for row, _, _ in val]
    codes = [float(sum((2.0 ** np.asarray(row)).sum() for row, _, _ in support)) for support in result.supports]
    assert records.loss.tolist() == codes
    assert records.shots.tolist() == [len(support) for support in result.supports]


@pytest.mark.parametrize(("number", "most_shots"), [(2, 2), (3, 4)])
def test_everything_drawn_from_pairs_is_balanced(number: int, most_shots: int) -> None:
    drawn, _, result = recorded(number)
    seen: Counter[str] = Counter()
    parts = {"train": drawn.episodes.train, "val": drawn.episodes.val}
    parts |= {"batch": drawn.batch, "current": drawn.current, "memory": drawn.memory}
    for name, shots in parts.items():
        present = np.arange(shots.y.shape[-1]) < shots.count[..., None]
        assert (2 * (shots.y * present).sum(axis=-1) == shots.count).all(), name
        seen[name] = int(shots.count.max())
    for support in result.supports:  # the same as the compiled loop's, by the test above
        assert 2 * sum(y for _, _, y in support) == len(support)
        seen["support"] = max(seen["support"], len(support))
    assert seen == {"train": most_shots, "val": 2, "batch": 6, "current": 6, "memory": 6, "support": 4}
