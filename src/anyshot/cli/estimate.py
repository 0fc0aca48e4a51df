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

from anyshot.online import OnlineLoop
from anyshot.runs.experiment import Experiment, recipe_for
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


def estimate(experiment: Experiment, tasks: TaskSet) -> Estimate:
    """Guess; settings that cannot be run are refused."""
    loop, rules, numbers = experiment.loop(tasks), experiment.settings.protocol, experiment.settings.numbers
    operations, size = _forward(experiment, tasks)
    batches = rules.batch * len(loop.learner.wants - {"episodes"})
    shots, inner = (rules.tasks_per_update, numbers.inner_steps) if "episodes" in loop.learner.wants else (0, 0)
    inner_cost = SECOND_ORDER if numbers.second_order else FIRST_ORDER
    # On average half of the most shots are drawn; memory is needed for all of them.
    passes = FIRST_ORDER * batches + shots * (FIRST_ORDER * rules.validation + inner_cost * inner * rules.max_shots / 2)
    passes += rules.test / rules.every
    at_once = shots * (rules.validation + inner * rules.max_shots)
    in_turn = at_once * 2 / max(2, rules.tasks_per_update)  # one task on each of two cores
    on_cpu = at_once if numbers.tasks == "together" else in_turn
    held = {CPU: on_cpu, GPU: in_turn if numbers.tasks == "in turn" else at_once}
    return Estimate(
        _steps(loop, tasks),
        sum(array.nbytes for array in (tasks.x, tasks.y, tasks.given, tasks.held)),
        {name: KEPT * size * (batches + many + rules.test) for name, many in held.items()},
        {
            name: passes * operations / one.operations + one.step + inner * one.inner_step
            for name, one in MACHINES.items()
        },
    )


def _steps(loop: OnlineLoop, tasks: TaskSet) -> int:
    rules = loop.protocol
    online = (rules.tasks or tasks.tasks) - rules.pretrain_tasks
    return rules.every * rules.updates * (online * rules.rounds + rules.pretrain_rounds)


def _forward(experiment: Experiment, tasks: TaskSet) -> tuple[float, int]:
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
