"""A search is the same search whatever ends first, however often it is begun again; and ASHA stops the poor."""

from __future__ import annotations

import functools
import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyshot.sweeps.plan import Leg, SearchPlan, goes_on, make_plan
from anyshot.sweeps.spec import read_spec
from anyshot.sweeps.trials import Trial

TASKS = [2, 4]
SPACE = {
    "learner.inner_rate": {"low": 0.001, "high": 1.0, "log": True},
    "learner.inner_steps": {"low": 1, "high": 4},
    "network.hidden": [[8], [4, 4]],
}


def spec_of(method: str, trials: int = 9, stopping: bool = True) -> Any:
    search = {"method": method, "trials": trials, "space": SPACE, "batch": 3, "seed": 5}
    content: dict[str, Any] = {"experiments": ["sinusoid"], "learners": ["ftml"], "seeds": [0, 1], "search": search}
    return read_spec(content | ({"stopping": {"tasks": TASKS, "factor": 2.0}} if stopping else {}))


def true_loss(trial: Trial, until: int | None) -> float:
    """Of a made-up run; those with large steps diverge in the middle."""
    rate = trial.candidate.settings.get("learner.inner_rate", 0.01)
    if rate > 0.5 and until != TASKS[0]:
        return math.inf
    return (until or 10) * (1 + abs(math.log(rate / 0.03)) + 0.1 * trial.seed)


class Known:
    """What has been run so far."""

    def __init__(self) -> None:
        self.legs: dict[Leg, float] = {}

    def loss(self, trial: Trial, until: int | None) -> float | None:
        return self.legs.get(Leg(trial, until))


def run_all(spec: Any, order: random.Random, workers: int) -> tuple[dict[Leg, float], dict[str, int]]:
    """Run a search: of the legs at hand a few run at a time and end in any order; now and then it is begun again."""
    known, plan, running = Known(), make_plan(spec), list[Leg]()
    while True:
        for leg in plan.legs(known):
            if leg not in running and len(running) < workers:
                running.append(leg)
        if not running:
            return known.legs, {str(candidate): tasks for candidate, tasks in plan.stopped().items()}
        leg = running.pop(order.randrange(len(running)))
        known.legs[leg] = true_loss(leg.trial, leg.until)
        if order.random() < 0.1:  # killed
            plan, running = make_plan(spec), []


@functools.cache
def undisturbed(method: str) -> tuple[dict[Leg, float], dict[str, int]]:
    return run_all(spec_of(method), random.Random(0), 1)  # noqa: S311


@pytest.mark.parametrize("method", ["random", "optuna"])
@settings(max_examples=6)
@given(seed=st.integers(0, 2**32), workers=st.integers(1, 7))
def test_the_order_in_which_runs_end_does_not_matter(method: str, seed: int, workers: int) -> None:
    assert run_all(spec_of(method), random.Random(seed), workers) == undisturbed(method)  # noqa: S311


@pytest.mark.parametrize("method", ["random", "optuna"])
def test_more_trials_add_to_the_ones_there_are(method: str) -> None:
    few, _ = run_all(spec_of(method, trials=4), random.Random(0), 2)  # noqa: S311
    more, _ = run_all(spec_of(method, trials=9), random.Random(0), 2)  # noqa: S311
    assert few.items() <= more.items()
    assert len({leg.trial for leg in more}) == 18


def test_only_the_best_go_on() -> None:
    """Judged again here, one candidate after another, straight from the rule."""
    spec = spec_of("random", trials=20)
    legs, stopped = run_all(spec, random.Random(1), 3)  # noqa: S311
    plan = SearchPlan(spec)
    plan.legs(Known())
    boards: dict[int, list[float]] = {tasks: [] for tasks in TASKS}
    candidates = list(dict.fromkeys(trial.candidate for trial in plan.list_trials()))
    assert len(candidates) == 20
    for candidate in candidates:
        out = False
        for tasks in TASKS:
            pair = [Leg(Trial(candidate, seed), tasks) for seed in (0, 1)]
            assert all((leg in legs) != out for leg in pair)
            if not out:
                loss = sum(true_loss(leg.trial, tasks) for leg in pair) / 2
                boards[tasks].append(loss)
                rank = sorted(boards[tasks]).index(loss)
                out = not (math.isfinite(loss) and rank < math.ceil(len(boards[tasks]) / 2))
                assert (stopped.get(str(candidate)) == tasks) == out
        assert (Leg(Trial(candidate, 0), None) in legs) != out
    assert 0 < len(stopped) < 20


def test_optuna_learns_and_random_does_not() -> None:
    def late_losses(method: str) -> list[float]:
        plan, known = make_plan(spec_of(method, trials=45, stopping=False)), Known()
        while legs := plan.legs(known):
            known.legs |= {leg: true_loss(leg.trial, leg.until) for leg in legs}
        late = plan.list_trials()[40:]
        return [min(true_loss(trial, None), 50.0) for trial in late]

    mean = {method: sum(late_losses(method)) / 50 for method in ("random", "optuna")}
    assert mean["optuna"] < 0.85 * mean["random"], mean


def test_draws_are_in_the_space() -> None:
    plan = make_plan(spec_of("random", trials=200, stopping=False))
    plan.legs(Known())
    drawn = [trial.candidate.settings for trial in plan.list_trials()]
    rates = [one.get("learner.inner_rate", 0.01) for one in drawn]
    assert all(0.001 <= rate <= 1.0 for rate in rates)
    assert 0.35 < sum(rate < 0.03 for rate in rates) / len(rates) < 0.65, "even over the logarithm"
    assert {one.get("learner.inner_steps", 1) for one in drawn} == {1, 2, 3, 4}
    assert {tuple(one["network.hidden"]) for one in drawn} == {(8,), (4, 4)}


def test_one_that_diverged_never_goes_on() -> None:
    assert not goes_on(math.inf, [math.inf], 3.0)
