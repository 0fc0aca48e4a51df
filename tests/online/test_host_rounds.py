"""A run over stored tasks gives what a run over the same tasks on the device gives."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshot
from anyshot import Experiment, OfflineProtocol, OnlineProtocol, TaskSet, make_learner, write_tasks
from anyshot.runs.reading import read_run
from tests.support.refusals import assert_refused

pytestmark = pytest.mark.medium

RULES: dict[str, Any] = {
    "labels_per_arrival": 2,
    "steps_per_arrival": 2,
    "max_steps": 8,
    "threshold": 0.75,
    "max_shots": 3,
    "tasks_per_update": 3,
    "validation_size": 3,
    "batch_size": 6,
    "memory_per_task": 3,
    "test_size": 4,
}


def make_tasks(uneven: bool, dtype: Any = np.float32) -> TaskSet:
    """Eight tasks: on which side of a plane of their own are points; some planes are learned before the rounds end."""
    draw = np.random.default_rng(0)
    pairs = {}
    for number in range(8):
        x = draw.normal(size=(12 + uneven * (number % 3), 3)).astype(dtype)
        pairs[f"plane {number}"] = (x, (x @ draw.normal(size=3) > 0).astype(np.int32))
    return TaskSet.from_arrays(pairs, test_size=4, name="planes")


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(
    ("name", "uneven", "changes", "ended"),
    [
        ("ftml-vs", True, {"pretrain_tasks": 2, "pretrain_steps": 4, "overlap": True, "num_tasks": 5}, 3),
        pytest.param("ftml-vs", False, {}, 8, marks=pytest.mark.slow),
        pytest.param("anyshot", True, {"labels_per_arrival": 3, "num_tasks": 4}, 4, marks=pytest.mark.slow),
        pytest.param("a-gem", True, {"shuffle_tasks": False, "num_tasks": 4}, 4, marks=pytest.mark.slow),
    ],
)
def test_stored_tasks_are_learned_as_those_on_the_device(
    tmp_path: Path, name: str, uneven: bool, changes: dict[str, Any], ended: int
) -> None:
    dtype = np.float64 if name == "anyshot" else np.float32  # its linear expert computes as JAX does here
    tasks, rules = make_tasks(uneven, dtype), OnlineProtocol(**RULES | changes)
    shards = write_tasks(tmp_path / "tasks", tasks, shard_bytes=400)
    assert len(list((tmp_path / "tasks").glob("shard-*"))) > 2
    folders = [tmp_path / "on the device", tmp_path / "stored"]
    few: dict[str, Any] = {"ftml-vs": {"inner_steps": 1, "meta_rate": 0.01}, "a-gem": {"meta_rate": 0.01}}.get(
        name, {"adaptation_steps": 1, "features": 4, "learning_rate": 0.01}
    )
    for source, folder in zip((tasks, shards), folders, strict=True):
        learner = make_learner(name, source, rules, network={"kind": "mlp", "hidden": (4,)}, **few)
        anyshot.run(Experiment(source, learner, rules, seed=3), folder, progress=False, checkpoint_seconds=0.0)
    ours, theirs = ([event.to_json() for event in read_run(folder)[1]] for folder in folders)
    assert ours == theirs  # every loss and every rate, bit for bit
    evaluations = [event for event in ours if event["kind"] == "evaluation"]
    assert sum(event["ended"] for event in evaluations) == ended
    assert any(event["mastered"] for event in evaluations)

    (folders[1] / "summary.json").unlink()  # and it goes on from a checkpoint as if nothing had happened
    shutil.rmtree(max((folders[1] / "checkpoints").iterdir()))
    anyshot.run(Experiment(shards, learner, rules, seed=3), folders[1], progress=False)
    assert [event.to_json() for event in read_run(folders[1])[1]] == theirs


def test_what_stored_tasks_cannot_do_is_refused(tmp_path: Path) -> None:
    stored = write_tasks(tmp_path / "tasks", make_tasks(False))
    borrowing = OnlineProtocol(**RULES | {"borrow": True})
    assert_refused(lambda: Experiment(stored, "toe", borrowing), ["borrow", str(stored.folder)])
    assert_refused(lambda: Experiment(stored, "maml", OfflineProtocol()), ["OnlineProtocol", str(stored.folder)])
