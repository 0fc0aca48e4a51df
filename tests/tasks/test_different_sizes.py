"""Tasks of different sizes in streams and runs: no row arrives twice and none is padding; from frames to names."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import anyshot
from anyshot.errors import InputError
from anyshot.offline.split import Draw
from anyshot.online import OnlineProtocol, make_stream
from anyshot.tasks import FrameEncoder, TaskSet
from anyshot.tasks.sheet import contact_sheet, label_counts

SIZES = {"large": 40, "small": 13, "middle": 22}
RULES: dict[str, Any] = {
    "labels_per_arrival": 4,
    "steps_per_arrival": 2,
    "max_steps": 16,
    "advance": False,
    "max_shots": 10,
    "tasks_per_update": 4,
    "validation_size": 6,
    "batch_size": 8,
    "test_size": 3,
}

pytestmark = pytest.mark.usefixtures("quick_compilation")


def make_numbered() -> TaskSet:
    """Examples that are their own row number."""
    start, pairs = 0, {}
    for name, size in SIZES.items():
        pairs[name] = (np.arange(start, start + size)[:, None].astype(float), np.arange(size) % 2)
        start += size
    return TaskSet.from_arrays(pairs, test_size=0.25)


@pytest.mark.parametrize("seed", range(3))
def test_a_stream_holds_every_row_once_and_the_rest_is_padding(seed: int) -> None:
    tasks = make_numbered()
    rules = OnlineProtocol(**RULES | {"max_steps": 20})
    stream = make_stream(tasks.on_device(), rules, jax.random.key(seed))
    assert stream.train_rows.shape == (3, 30)
    for position, task in enumerate(stream.order.tolist()):
        count = int(stream.capacities[position])
        assert count == tasks.counts("train")[task]
        rows = np.asarray(stream.train_rows[position])
        assert sorted(rows[:count].tolist()) == sorted(tasks.rows_of(task, "train").tolist())
        assert set(rows[count:].tolist()) <= set(rows[:count].tolist()), "padding is of the task"
        tests = stream.test_rows[position].tolist()
        assert len(set(tests)) == 3
        assert set(tests) <= set(tasks.rows_of(task, "test").tolist())
    short = make_stream(tasks.on_device(), OnlineProtocol(**RULES | {"max_steps": 6}), jax.random.key(seed))
    assert sorted(short.capacities.tolist()) == [10, 12, 12], "three arrivals of four, and all of the smallest"


def test_protocols_that_the_smallest_task_cannot_serve_are_refused() -> None:
    tasks = make_numbered()
    with pytest.raises(InputError, match="test_size is 4, but task 'small' of own tasks has 3 examples to test on"):
        make_stream(tasks, OnlineProtocol(**RULES | {"test_size": 4}), jax.random.key(0))
    offline = anyshot.OfflineProtocol(
        max_shots=6, queries=5, test_shots=(0, 1), test_queries=3, train_tasks=2, validation_tasks=0
    )
    with pytest.raises(InputError, match=r"max_shots and queries ask for 11 datapoints, but a task .* holds 10"):
        anyshot.Experiment(tasks, "toe", offline)


def test_sheets_show_no_padding() -> None:
    tasks = make_numbered()
    counts = label_counts(tasks)
    assert counts is not None
    assert counts.sum(axis=1).tolist() == list(SIZES.values())
    x = np.zeros((9, 4, 4, 3), np.uint8)
    images = TaskSet.from_arrays({"a": (x, [0] * 9), "b": (x[:4], [1] * 4)})
    assert "each with 3 to 7 examples to train on and 1 to 2" in contact_sheet(images).get_suptitle()


@pytest.mark.medium
def test_offline_episodes_hold_no_row_twice_and_no_other_task() -> None:
    tasks = make_numbered()
    rules = anyshot.OfflineProtocol(tasks_per_update=50, max_shots=5, queries=5, test_shots=(0, 8), test_queries=3)
    training = Draw(tasks.on_device(), rules, rules.max_shots, rules.queries, from_test_rows=False)
    episodes = training.training(jax.random.key(0))
    drawn = np.concatenate([episodes.train.x, episodes.val.x], axis=1)[..., 0]
    own = [set(tasks.rows_of(task, "train").tolist()) for task in range(3)]
    for rows in drawn.tolist():
        assert len(set(rows)) == 10
        assert any(set(rows) <= rows_of_task for rows_of_task in own)
    episode = Draw.test(tasks.on_device(), rules).episode(jax.random.key(0), jnp.asarray(1), jnp.asarray(8))
    assert len(set(episode.train.x.ravel().tolist()) & own[1]) == 8
    assert len(set(episode.val.x.ravel().tolist()) & set(tasks.rows_of(1, "test").tolist())) == 3


def make_loans(rows: int, seed: int, country: str) -> pd.DataFrame:
    """Loans that go bad where the income is low, of people with gaps in their papers."""
    rng = np.random.default_rng(seed)
    income = rng.normal(30, 10, rows)
    risk = np.where(income + 3 * rng.normal(size=rows) < 30, "bad", "ok").astype(object)
    risk[rng.random(rows) < 0.1] = None
    return pd.DataFrame(
        {
            "income": np.where(rng.random(rows) < 0.1, np.nan, income),
            "job": rng.choice(["baker", "smith", "clerk", None], rows),
            "note": [f"{rng.choice(['pays', 'asks', 'moved'])} often {number}" for number in range(rows)],
            "home owner": rng.random(rows) < 0.5,
            "country": country,
            "risk": risk,
        }
    )


@pytest.mark.medium
@pytest.mark.parametrize("learner", [pytest.param("ftml-vs", marks=pytest.mark.slow), "toe"])
def test_frames_to_predictions_by_name(learner: str) -> None:
    frames = {name: make_loans(rows, seed, name[:2]) for seed, (name, rows) in enumerate(SIZES.items())}
    tasks = TaskSet.from_frames(frames, target="risk", name="loans")
    rules = OnlineProtocol(**RULES | {"test_size": int(tasks.counts("test").min())})
    network = {"kind": "mlp", "hidden": (16,)}
    method = anyshot.make_learner(learner, tasks, rules, network=network, meta_rate=1e-2)
    run = anyshot.run(anyshot.Experiment(tasks, method, rules), progress=False)
    labels = run.table.groupby("task")["labels"].max()
    arrived = rules.rounds * rules.labels_per_arrival
    expected = {name: min(arrived, count) for name, count in zip(tasks.task_names, tasks.counts("train"), strict=True)}
    assert labels.to_dict() == expected, "no label is bought that a task does not have"
    assert isinstance(tasks.encoder, FrameEncoder)
    shots, new = make_loans(8, 7, "la").dropna(subset="risk"), make_loans(40, 8, "la")
    outputs = run.predict((tasks.encoder.encode(shots), tasks.encode(shots["risk"])), tasks.encoder.encode(new))
    names = tasks.decode(outputs.argmax(-1))
    assert set(names) <= {"bad", "ok"}
    assert (names == tasks.choose(outputs, 0)).all()
    there = new["risk"].notna()
    right = (names[there] == new["risk"][there]).mean()
    assert right > 0.6, right
