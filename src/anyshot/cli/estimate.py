"""What a run will need, guessed from the network and the rules; nothing is compiled.

A forward pass of the network on one example gives its arithmetic and the size of its values. Passes in a step are
counted from the rules, and the rest are constants measured on two machines. The guess was within a third of what was
measured for the presets rainbow-mnist, rainbow-digits (FTML-VS and TOE); elsewhere it may be off by a factor of three.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

from anyshot.learners.ftml import FTML
from anyshot.runs.experiment import Experiment, recipe_for
from anyshot.runs.offline_experiment import OfflineExperiment
from anyshot.tasks import TaskSet

KEPT = 0.25  # share of a pass's values that XLA keeps at once: 366 MB for rainbow-mnist's meta-gradient, tasks together
FIRST_ORDER, SECOND_ORDER = 3, 9  # forward passes that a gradient costs, and a gradient that is differentiated again


@dataclass(frozen=True)
class Machine:
    """How fast it was: operations a second, and seconds that a step and an inner step take however small they are."""

    operations: float
    step: float
    inner_step: float


CPU, GPU = "two CPU cores", "an H200"
MACHINES = {CPU: Machine(8e10, 1e-3, 1.5e-3), GPU: Machine(3e13, 2e-4, 3e-4)}


@dataclass(frozen=True)
class Estimate:
    """What a run needs.

    Attributes:
        steps: of the whole run, at most.
        task_set: bytes of the task set on the device.
        working: bytes that a step needs besides, on each machine.
        step: seconds of a step on each machine.
    """

    steps: int
    task_set: int
    working: dict[str, float]
    step: dict[str, float]


@dataclass(frozen=True)
class Work:
    """What a step is made of.

    Attributes:
        steps: of the whole run, at most.
        batch: datapoints in plain batches.
        tasks: in a meta-batch; 0 if there is none.
        shots: of a task, at most; on average half as many are drawn.
        validation: datapoints that validate a task.
        inner_steps: of a task, 0 for a method that does not descend on its shots.
        evaluated: forward passes that evaluation comes to.
        test: datapoints evaluated at once.
    """

    steps: int
    batch: int
    tasks: int
    shots: int
    validation: int
    inner_steps: int
    evaluated: float
    test: int


def estimate(experiment: Experiment | OfflineExperiment, tasks: TaskSet) -> Estimate:
    """Guess; settings that cannot be run are refused."""
    work = _offline(experiment, tasks) if isinstance(experiment, OfflineExperiment) else _online(experiment, tasks)
    numbers = experiment.settings.numbers
    operations, size = _forward(experiment, tasks)
    of_shot = (SECOND_ORDER if numbers.second_order else FIRST_ORDER) * work.inner_steps or FIRST_ORDER
    passes = FIRST_ORDER * work.batch + work.tasks * (FIRST_ORDER * work.validation + of_shot * work.shots / 2)
    passes += work.evaluated
    at_once = work.tasks * (work.validation + max(1, work.inner_steps) * work.shots)  # memory is needed for all shots
    in_turn = at_once * 2 / max(2, work.tasks)  # one task on each of two cores
    on_cpu = at_once if numbers.tasks == "together" else in_turn
    held = {CPU: on_cpu, GPU: in_turn if numbers.tasks == "in turn" else at_once}
    return Estimate(
        work.steps,
        sum(array.nbytes for array in (tasks.x, tasks.y, tasks.given, tasks.held)),
        {name: KEPT * size * (work.batch + many + work.test) for name, many in held.items()},
        {
            name: passes * operations / one.operations + one.step + work.inner_steps * one.inner_step
            for name, one in MACHINES.items()
        },
    )


def _online(experiment: Experiment, tasks: TaskSet) -> Work:
    learner, rules = experiment.loop(tasks).learner, experiment.settings.protocol
    online = (rules.tasks or tasks.tasks) - rules.pretrain_tasks
    meta = "episodes" in learner.wants
    return Work(
        steps=rules.every * rules.updates * (online * rules.rounds + rules.pretrain_rounds),
        batch=rules.batch * len(learner.wants - {"episodes"}),
        tasks=rules.tasks_per_update if meta else 0,
        shots=rules.max_shots,
        validation=rules.validation,
        inner_steps=experiment.settings.numbers.inner_steps if isinstance(learner, FTML) else 0,
        evaluated=rules.test / rules.every,
        test=rules.test,
    )


def _offline(experiment: OfflineExperiment, tasks: TaskSet) -> Work:
    learner, plan = experiment.loop(tasks).learner, experiment.settings.plan
    inner_steps = experiment.settings.numbers.inner_steps if isinstance(learner, FTML) else 0
    ways = plan.ways or 1
    # A trial adapts to all the numbers of shots that the test has.
    adapting = sum(FIRST_ORDER * max(1, inner_steps) * shots + plan.test_queries for shots in plan.test_shots)
    trial = plan.validation_episodes * ways * adapting if plan.validation_tasks else 0
    return Work(
        steps=plan.rounds * plan.every,
        batch=0,
        tasks=plan.tasks_per_update,
        shots=ways * plan.max_shots,
        validation=ways * plan.queries,
        inner_steps=inner_steps,
        evaluated=trial / plan.every,
        test=ways * plan.test_queries,
    )


def _forward(experiment: Experiment | OfflineExperiment, tasks: TaskSet) -> tuple[float, int]:
    """Operations of a forward pass on one example, and bytes of all values in it."""
    recipe = recipe_for(experiment.settings, tasks)
    model = eqx.filter_eval_shape(recipe.network, jax.random.key(0), recipe.outputs)
    arrays, static = eqx.partition(model, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))

    def forward(arrays: Any, x: Any) -> Any:
        return eqx.combine(arrays, static)(x)

    x, _ = tasks.example()
    example = jax.ShapeDtypeStruct(x.shape, x.dtype)
    costs: Any = jax.jit(forward).lower(arrays, example).cost_analysis()
    return float(costs["flops"]), _bytes(jax.make_jaxpr(forward)(arrays, example).jaxpr)


def _bytes(program: Any) -> int:
    total = 0
    for line in program.eqns:
        inner = [getattr(value, "jaxpr", value) for value in line.params.values()]
        inner = [value for value in inner if hasattr(value, "eqns")]
        total += sum(map(_bytes, inner)) if inner else sum(4 * int(np.prod(out.aval.shape)) for out in line.outvars)
    return total
