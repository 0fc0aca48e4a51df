"""What a meta-update costs on several devices, predicted from its arithmetic: the model of docs/scaling.md.

A step is compute, which the devices share, plus a fixed part, plus the sum of the gradients over the devices. Reading
the examples of stored tasks goes on at the same time, so the slower of the two counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import equinox as eqx
import jax
import numpy as np

from anyshot.adaptation.objective import tasks_that_fill_a_gpu
from anyshot.errors import InputError
from anyshot.learners.ftml import FTML
from anyshot.online import OnlineProtocol
from anyshot.runs.estimate import FIRST_ORDER, KEPT, SECOND_ORDER, example_size, forward_pass
from anyshot.runs.experiment import Experiment


@dataclass(frozen=True)
class Hardware:
    """What the devices, the network between them and the storage can do.

    Attributes:
        operations: of one device, a second.
        step: seconds of a step that no device can take from another.
        inner_step: the same for each inner step.
        bandwidth: bytes a second between two devices.
        latency: seconds of one message between two devices.
        reads: places of the storage that can be read, a second.
        read_bandwidth: bytes a second from the storage.
    """

    operations: float
    step: float
    inner_step: float
    bandwidth: float = math.inf
    latency: float = 0.0
    reads: float = math.inf
    read_bandwidth: float = math.inf


@dataclass(frozen=True)
class Cost:
    """What a step costs.

    Attributes:
        compute: seconds of the largest share of tasks.
        fixed: seconds that do not depend on the number of devices.
        reduce: seconds to add up the gradients.
        read: seconds to read the examples, at the same time as the others.
        device_bytes: of the values of a step, the weights, their gradient and Adam's two moments, on each device.
    """

    compute: float
    fixed: float
    reduce: float
    read: float
    device_bytes: float

    @property
    def seconds(self) -> float:
        """Of the step."""
        return max(self.compute + self.fixed + self.reduce, self.read)


def predict_cost(experiment: Experiment, devices: int, hardware: Hardware) -> Cost:
    """Predict the cost of one meta-update of an online experiment.

    Args:
        experiment: whose learner is FTML with some rule, such as ftml-vs.
        devices: that share the tasks of a meta-batch.
        hardware: what they can do.

    >>> from anyshot import make_experiment
    >>> experiment = make_experiment("sinusoid", "ftml-vs", settings={"protocol.tasks_per_update": 24})
    >>> one, eight = (predict_cost(experiment, n, Hardware(1e9, 1e-3, 1e-3)) for n in (1, 8))
    >>> print(f"{one.compute / eight.compute:.0f} {one.fixed == eight.fixed}")
    8 True
    """
    rules, learner = experiment.protocol, experiment.learner
    if not isinstance(rules, OnlineProtocol) or not isinstance(learner, FTML):
        raise InputError(f"experiment must be an online one whose learner is FTML with some rule, got {learner.name}")
    if type(devices) is not int or devices < 1:
        raise InputError(f"devices must be a whole number of at least 1, got {devices!r}")
    operations, values = forward_pass(experiment, 1, 1)
    hyper = getattr(learner, "hyper", None)
    batching = getattr(hyper, "batching", "auto")
    in_turn = batching == "in turn" or (batching == "auto" and jax.default_backend() == "cpu")
    steps, tasks = max(1, learner.inner_steps), math.ceil(rules.tasks_per_update / devices)
    of_shot = steps * (SECOND_ORDER if learner.second_order else FIRST_ORDER)
    shots = rules.max_shots / 2 if in_turn else rules.max_shots  # batched, every task is padded to M shots
    passes = tasks * (of_shot * shots + FIRST_ORDER * rules.validation_size)
    fill = tasks_that_fill_a_gpu(tasks, tasks * rules.max_shots * example_size(experiment))
    batched = 1 if in_turn else tasks if batching == "together" else fill
    at_once = batched * (steps * rules.max_shots + rules.validation_size)
    weights = _weight_bytes(experiment)
    ring = 2 * (devices - 1) / devices * weights / hardware.bandwidth
    drawn = rules.tasks_per_update * (rules.max_shots / 2 + rules.validation_size) * _example_bytes(experiment)
    return Cost(
        compute=passes * operations / hardware.operations,
        fixed=hardware.step + learner.inner_steps * hardware.inner_step,
        reduce=ring + 2 * math.ceil(math.log2(devices)) * hardware.latency,
        read=max(rules.tasks_per_update / hardware.reads, drawn / hardware.read_bandwidth),
        device_bytes=KEPT * values * at_once + 4 * weights,
    )


def _weight_bytes(experiment: Experiment) -> int:
    state = eqx.filter_eval_shape(experiment.learner.init, jax.random.key(0))
    weights = jax.tree.leaves(eqx.filter(state.weights, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct)))
    return sum(4 * math.prod(leaf.shape) for leaf in weights)


def _example_bytes(experiment: Experiment) -> int:
    return sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in experiment.tasks.example())
