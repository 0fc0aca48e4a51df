"""The engine over stored examples does what the online loop does, and reads no more than it draws."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from anyshot.lifelong.engine import AllLabelled, Engine, Labelled
from anyshot.online import OnlineLoop, OnlineProtocol, make_stream
from anyshot.online.loop import round_keys
from tests.support.learners import build
from tests.support.online_cases import RUN, START, WORLD, small_mlp
from tests.support.tiny_tasks import classification, regression

pytestmark = [pytest.mark.usefixtures("quick_compilation"), pytest.mark.medium]

RULES: dict[str, Any] = {
    "labels_per_arrival": 2, "steps_per_arrival": 2, "max_steps": 8, "advance": False, "max_shots": 3,
    "points_per_shot": 1, "tasks_per_update": 3, "validation_size": 4, "batch_size": 5, "memory_per_task": 3,
    "test_size": 4, "num_tasks": 3,
}  # fmt: skip


LATER = [("ridge-head", regression), ("toe", classification), ("a-gem", classification), ("protonet", classification)]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ridge-head", classification),
        ("ftml-vs", classification),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in LATER),
    ],
)
def test_the_same_events_give_the_same_predictions_as_in_the_online_loop(name: str, kind: Any) -> None:
    tasks = kind()
    measure = {} if kind is classification else {"measure": "loss", "threshold": 0.1}
    protocol = OnlineProtocol(**RULES, **measure)
    outputs = 3 if kind is classification else 2
    learner = build(name, network=small_mlp, outputs=outputs, example=tasks.example(), max_shots=3)
    stream = make_stream(tasks, protocol, WORLD)
    loop = OnlineLoop(learner, protocol, learner.spec.loss, kind is classification)
    state = loop.start(stream, START)
    one_round = jax.jit(loop.round)
    engine = Engine(learner, learner.spec.problem, protocol, lambda rows: np.asarray(tasks.x)[rows], stream.capacity)
    mine = engine.init(START)
    kept = [Labelled(np.zeros(0, np.int64), np.asarray(tasks.y)[:0]) for _ in range(3)]
    while int(state.position) < 3:
        position, before = int(state.position), state
        of_updates, of_evaluation = round_keys(RUN, before.rounds)
        state, record = one_round(stream, before, RUN)
        rows = np.asarray(stream.train_rows[position])[: int(record.received)]
        kept[position] = Labelled(rows.astype(np.int64), np.asarray(tasks.y)[rows])
        if int(before.round) > 0:
            for key in jax.random.split(of_updates, 2):
                mine, _ = engine.update(mine, AllLabelled.of(kept, position), key)
        mine = engine.recall(mine, AllLabelled.of(kept, position), jax.random.fold_in(of_evaluation, 1))
        x, y = stream.test_set(jnp.asarray(position))
        found = engine.predict(mine, engine.support(kept[position], of_evaluation), np.asarray(x))
        loss = np.mean([learner.spec.loss(jnp.asarray(o), t) for o, t in zip(found, y, strict=True)])
        np.testing.assert_allclose(loss, record.loss, rtol=1e-7)


def test_an_update_reads_only_what_it_draws_and_sizes_double() -> None:
    tasks = classification()
    learner = build("ftml-vs", network=small_mlp, outputs=3, example=tasks.example(), max_shots=3)
    protocol = OnlineProtocol(**RULES)
    read: list[int] = []

    def look(rows: np.ndarray) -> np.ndarray:
        read.extend(rows.tolist())
        return np.zeros((len(rows), 4))

    engine = Engine(learner, learner.spec.problem, protocol, look, capacity=4)
    count = 100_000
    big = [Labelled(np.arange(count) + 10 * count * task, np.zeros(count, np.int32)) for task in range(2)]
    state, _ = engine.update(engine.init(START), AllLabelled.of(big, 0), RUN)
    assert 3 <= len(read) <= 3 * (3 + 4)  # three tasks, up to three shots and four validation points each
    assert len(set(read)) > 1
    assert all(0 <= row % (10 * count) < count for row in read)
    jax.block_until_ready(state)
