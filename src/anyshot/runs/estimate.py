"""What a run will need, estimated from the network and the protocol. Nothing is compiled.

The arithmetic of one forward pass and the size of its values come from JAX. The passes of a step are counted from the
protocol and from what the learner says of itself. The rest are constants measured on two machines. For rainbow-mnist
and rainbow-digits (FTML-VS and TOE) the estimate was within a third of what was measured; elsewhere it may be off by a
factor of three.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from anyshot.adaptation.objective import tasks_that_fill_a_gpu
from anyshot.runs.experiment import Experiment
from anyshot.shots import Shots

KEPT = 0.25  # share of a pass's values that XLA keeps at once: 366 MB for rainbow-mnist's meta-gradient, tasks together
FIRST_ORDER, SECOND_ORDER = 3, 9  # forward passes that a gradient costs, and a gradient that is differentiated again


@dataclass(frozen=True)
class Machine:
    """How fast a machine was.

    Attributes:
        operations: a second.
        step: seconds that a step takes, however small it is.
        inner_step: the same for an inner step.
    """

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
        task_set_bytes: of the task set on the device.
        working_bytes: that a step needs besides, by machine.
        seconds_per_step: by machine.
    """

    steps: int
    task_set_bytes: int
    working_bytes: dict[str, float]
    seconds_per_step: dict[str, float]


@dataclass(frozen=True)
class _Work:
    """What a step is made of.

    Attributes:
        steps: of the whole run, at most.
        batch: datapoints in flat batches.
        tasks: in a meta-batch; 0 if there is none.
        shots: of a task, at most; half as many are drawn on average.
        validation: datapoints that validate a task.
        evaluated: forward passes of the evaluation, for each step.
        test: datapoints evaluated at once.
        adaptations: one after another in each step.
    """

    steps: int
    batch: int
    tasks: int
    shots: int
    validation: int
    evaluated: float
    test: int
    adaptations: float = 1.0


def estimate(experiment: Experiment) -> Estimate:
    """Estimate the steps, the memory and the time of a run.

    Args:
        experiment: that would be run.

    >>> from anyshot import make_experiment
    >>> estimate(make_experiment("sinusoid", "toe", settings={"protocol.num_tasks": 5})).steps
    500
    """
    inner_steps = experiment.learner.inner_steps
    hyper = getattr(experiment.learner, "hyper", None)
    if experiment.learner.wants:
        work = {"online": _online_work, "offline": _offline_work}[experiment.protocol.kind](experiment)
        operations, size = forward_pass(experiment, 1, 1)
    else:
        work, labels, queries = _fitting_work(experiment)
        operations, size = forward_pass(experiment, labels, queries)
    of_shot = (SECOND_ORDER if experiment.learner.second_order else FIRST_ORDER) * max(1, inner_steps)
    passes = FIRST_ORDER * work.batch + work.tasks * (FIRST_ORDER * work.validation + of_shot * work.shots / 2)
    passes += work.evaluated
    of_task = work.validation + max(1, inner_steps) * work.shots  # memory is needed for all shots
    in_turn = min(2, work.tasks)  # one task on each of two cores
    fill = tasks_that_fill_a_gpu(work.tasks, work.tasks * work.shots * example_size(experiment))
    at_once = {"together": [work.tasks] * 2, "in turn": [in_turn] * 2, "auto": [in_turn, fill]}
    batched = dict(zip((CPU, GPU), at_once[getattr(hyper, "batching", "together")], strict=True))
    return Estimate(
        work.steps,
        experiment.tasks.device_bytes,
        {name: KEPT * size * (work.batch + tasks * of_task + work.test) for name, tasks in batched.items()},
        {
            name: passes * operations / machine.operations
            + machine.step
            + work.adaptations * inner_steps * machine.inner_step
            for name, machine in MACHINES.items()
        },
    )


def _online_work(experiment: Experiment) -> _Work:
    rules: Any = experiment.protocol
    wants = experiment.learner.wants
    online = (rules.num_tasks or experiment.tasks.num_tasks) - rules.pretrain_tasks
    return _Work(
        steps=rules.steps_per_arrival * rules.updates_per_step * (online * rules.rounds + rules.pretrain_rounds),
        batch=rules.batch_size * len(wants - {"episodes"}),
        tasks=rules.tasks_per_update if "episodes" in wants else 0,
        shots=rules.max_shots,
        validation=rules.validation_size,
        evaluated=rules.test_size / (rules.steps_per_arrival * rules.updates_per_step),
        test=rules.test_size,
    )


def _offline_work(experiment: Experiment) -> _Work:
    rules: Any = experiment.protocol
    ways = rules.ways or 1
    # A trial adapts to all the numbers of shots that the test has.
    adapting = FIRST_ORDER * max(1, experiment.learner.inner_steps)
    trial = sum(adapting * shots + rules.test_queries for shots in rules.test_shots) * ways * rules.validation_episodes
    return _Work(
        steps=rules.steps,
        batch=0,
        tasks=rules.tasks_per_update,
        shots=ways * rules.max_shots,
        validation=ways * rules.queries,
        evaluated=trial / rules.steps_per_trial if rules.validates else 0,
        test=ways * rules.test_queries,
    )


def _fitting_work(experiment: Experiment) -> tuple[_Work, int, int]:
    """The work of a learner that is never updated, with a prediction as a forward pass; its labels and its queries.

    Offline there is no training, and the test is not part of the estimate.
    """
    rules: Any = experiment.protocol
    if rules.kind == "offline":
        return _Work(0, 0, 0, 0, 0, 1.0, 1), rules.most_shots, rules.test_queries * (rules.ways or 1)
    work = _online_work(experiment)
    a_round = rules.steps_per_arrival * rules.updates_per_step
    evaluated = max(1, experiment.learner.inner_steps) / a_round
    labels = min(rules.rounds * rules.labels_per_arrival, experiment.tasks.width("train"))
    return replace(work, evaluated=evaluated, test=1, adaptations=1 / a_round), labels, rules.test_size


def example_size(experiment: Experiment) -> int:
    """Numbers in what a network sees of one example."""
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(experiment.tasks.example()[0]))


def forward_pass(experiment: Experiment, labels: int, queries: int) -> tuple[float, int]:
    """Operations of a forward pass, and bytes of all values in it.

    It is that of a network on one example, or a prediction for so many queries with so many labels. Loops count once.
    """
    learner, (x, y) = experiment.learner, experiment.tasks.example()
    make_model = getattr(learner, "make_model", None) if learner.wants else None
    model: Any = eqx.filter_eval_shape(make_model or learner.init, jax.random.key(0))
    arrays, static = eqx.partition(model, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))

    def forward(arrays: Any, x: Any, y: Any) -> Any:
        combined = eqx.combine(arrays, static)
        if make_model:
            return combined(x)
        shots_x, shots_y, query = (
            jnp.broadcast_to(leaf, (rows, *leaf.shape)) for leaf, rows in ((x, labels), (y, labels), (x, queries))
        )
        return learner.predict(combined, Shots(shots_x, shots_y, jnp.asarray(labels, jnp.int32)), query)

    example = tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in (x, y))
    costs: Any = jax.jit(forward).lower(arrays, *example).cost_analysis()
    return float(costs["flops"]), _bytes(jax.make_jaxpr(forward)(arrays, *example).jaxpr)


def _bytes(program: Any) -> int:
    total = 0
    for line in program.eqns:
        inner = [getattr(value, "jaxpr", value) for value in line.params.values()]
        inner = [value for value in inner if hasattr(value, "eqns")]
        total += sum(map(_bytes, inner)) if inner else sum(4 * int(np.prod(out.aval.shape)) for out in line.outvars)
    return total
