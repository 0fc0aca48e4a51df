"""An own experiment as a sweep names it: "tests.support.own_experiments:make_small"."""

from __future__ import annotations

from typing import Any

from anyshot import Experiment
from tests.support.small_runs import small_online


def make_small(learner: str | None, seed: int, settings: dict[str, Any]) -> Experiment:
    return small_online(learner or "toe", seed, num_tasks=settings["tasks"])


def make_without_seed(learner: str | None, seed: int, settings: dict[str, Any]) -> Experiment:
    return small_online(learner or "toe", 0)
