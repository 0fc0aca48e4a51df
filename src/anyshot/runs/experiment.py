"""An experiment: tasks, a learner, a protocol and a seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from anyshot.adaptation import Loss, cross_entropy, squared_error
from anyshot.errors import InputError, first_line
from anyshot.learners import Learner, LearnerSpec, NetworkLearner, Problem, build_learner
from anyshot.networks import make_network
from anyshot.offline import OfflineProtocol
from anyshot.offline.split import split_for
from anyshot.online import OnlineProtocol
from anyshot.online.stream import check_fits
from anyshot.runs.describe import describe
from anyshot.runs.learner_records import describe_learner
from anyshot.runs.records import ExperimentRecord, Origin, TasksRecord
from anyshot.tasks import StoredTasks, TaskSet

AnyTasks = TaskSet | StoredTasks


@dataclass(frozen=True, eq=False, init=False)
class Experiment:
    """A learner on tasks, in a protocol: everything that the result depends on.

    Attributes:
        tasks: what is learned from: a `TaskSet`, which is copied to the device, or `StoredTasks`, which are read from
            the disk as they are drawn.
        learner: the method: a `Learner`, or the name of one, which is then made with its defaults.
        protocol: the rules, online or offline.
        seed: of the stream, the initial weights and every draw. The stream depends on nothing else, so learners with
            the same seed are given the same tasks and datapoints in the same order.

    >>> from anyshot import OnlineProtocol, load_tasks
    >>> rules = OnlineProtocol(num_tasks=3, max_steps=20, measure="loss", threshold=0.3, max_shots=5)
    >>> Experiment(load_tasks("sinusoid"), "ftml-vs", rules).record.learner.network
    {'kind': 'mlp', 'hidden': [40, 40]}
    """

    tasks: AnyTasks
    learner: Learner
    protocol: OnlineProtocol | OfflineProtocol
    seed: int

    def __init__(
        self, tasks: AnyTasks, learner: Learner | str, protocol: OnlineProtocol | OfflineProtocol, seed: int = 0
    ) -> None:
        if not isinstance(tasks, (TaskSet, StoredTasks)):
            raise InputError(f"tasks must be a TaskSet, got {type(tasks).__name__}; see TaskSet.from_arrays")
        if not isinstance(protocol, (OnlineProtocol, OfflineProtocol)):
            raise InputError(f"protocol must be an OnlineProtocol or OfflineProtocol, got {protocol!r}")
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
            raise InputError(f"seed must be a whole number from 0 to {2**32 - 1}, got {seed!r}")
        if isinstance(learner, str):
            learner = make_learner(learner, tasks, protocol)
        if not isinstance(learner, Learner):
            raise InputError(f"learner must be a Learner or the name of one, got {learner!r}")
        for name, value in (("tasks", tasks), ("learner", learner), ("protocol", protocol), ("seed", seed)):
            object.__setattr__(self, name, value)
        if isinstance(protocol, OnlineProtocol):
            check_fits(tasks, protocol)
        elif isinstance(tasks, StoredTasks):
            raise InputError(
                f"protocol must be an OnlineProtocol for stored tasks ({tasks.folder}), got an OfflineProtocol"
            )
        else:
            split_for(tasks, protocol, seed)
        self._check_learner()

    def _check_learner(self) -> None:
        if not isinstance(self.learner, NetworkLearner):
            return
        eqx.filter_eval_shape(lambda: self.learner.init(jax.random.key(0)))  # refuses what does not fit its network
        ours, theirs = problem_of(self.tasks, self.protocol), self.learner.spec.problem
        for name in ("example", "outputs", "max_shots"):
            if getattr(ours, name) != getattr(theirs, name):
                raise InputError(
                    f"the learner was made for a problem with {name} {getattr(theirs, name)}, but these tasks and this "
                    f"protocol have {getattr(ours, name)}; make it with make_learner(name, tasks, protocol)"
                )

    @property
    def classification(self) -> bool:
        """Whether labels are classes."""
        return bool(jnp.issubdtype(self.tasks.example()[1].dtype, jnp.integer))

    @property
    def loss(self) -> Loss:
        """Of one test datapoint: the learner's, or the usual one."""
        if isinstance(self.learner, NetworkLearner):
            return self.learner.spec.loss
        return usual_loss(problem_of(self.tasks, self.protocol))

    @cached_property
    def record(self) -> ExperimentRecord:
        """All of it as JSON. Runs of the same record give the same bytes."""
        tasks, origin = self.tasks, self.tasks.origin
        return ExperimentRecord(
            kind=self.protocol.kind,  # type: ignore[arg-type]
            seed=self.seed,
            tasks=TasksRecord(
                name=tasks.name,
                fingerprint=tasks.fingerprint,
                num_tasks=tasks.num_tasks,
                origin=_describe_origin(origin) if origin else None,
            ),
            learner=describe_learner(self.learner),
            protocol=describe(dataclasses.asdict(self.protocol)),
        )


def problem_of(tasks: AnyTasks, protocol: OnlineProtocol | OfflineProtocol) -> Problem:
    """What a learner must know of the tasks, and of the shots that a protocol gives."""
    x, y = tasks.example()
    if jnp.issubdtype(y.dtype, jnp.integer):
        outputs = protocol.ways or (2 if tasks.unit == 2 else tasks.num_classes)
    else:
        outputs = int(np.prod(y.shape))
    return Problem((x, y), outputs, protocol.most_shots)


def usual_loss(problem: Problem) -> Loss:
    """Cross entropy for classes, squared error for targets."""
    return cross_entropy if problem.classification else squared_error


def make_learner(
    name: str,
    tasks: AnyTasks,
    protocol: OnlineProtocol | OfflineProtocol,
    *,
    network: str | Mapping[str, Any] | Callable[[Any, int], Any] = "auto",
    loss: Loss | None = None,
    optimiser: Any = None,
    **hyperparameters: Any,
) -> Learner:
    """A learner of the catalogue for these tasks.

    Args:
        name: `anyshot learners` lists them.
        tasks: what it will learn from.
        protocol: the rules it will learn by.
        network: "auto" takes one that suits the inputs; a registered one by name, or with settings such as
            {"kind": "mlp", "hidden": (64,)}; or an own function (key, outputs) -> model, where a model is any callable
            PyTree from one input to `outputs` numbers.
        loss: of one datapoint, a function of (output, label); by default cross entropy or squared error.
        optimiser: of the weights, from optax; by default Adam with the learner's `meta_rate` and `meta_clip`.
        hyperparameters: of this learner, such as inner_rate=0.03.

    >>> import equinox as eqx
    >>> from anyshot import OnlineProtocol, load_tasks
    >>> tasks, rules = load_tasks("sinusoid"), OnlineProtocol(measure="loss", threshold=0.3, max_shots=5)
    >>> own = lambda key, outputs: eqx.nn.MLP(1, outputs, width_size=8, depth=1, key=key)
    >>> make_learner("ftml-vs", tasks, rules, network=own, inner_rate=0.01).name
    'ftml-vs'
    """
    problem = problem_of(tasks, protocol)
    if isinstance(network, (str, Mapping)):
        network = make_network(network, problem.example[0].shape)
    else:
        _check_network(network, problem)
    if loss is not None and not callable(loss):
        raise InputError(f"loss must be a function of (output, label), got {loss!r}")
    if optimiser is not None and not (hasattr(optimiser, "init") and hasattr(optimiser, "update")):
        raise InputError(f"optimiser must be one of optax, such as optax.adam(1e-3), got {optimiser!r}")
    return build_learner(LearnerSpec(name, problem, network, loss or usual_loss(problem), optimiser), hyperparameters)


def _describe_origin(origin: Any) -> Origin:
    return Origin(name=origin.name, seed=origin.seed, settings=dict(origin.settings))


def _check_network(network: Any, problem: Problem) -> None:
    """Refuse an own network that cannot be made, or whose outputs do not fit; nothing is computed."""
    if not callable(network):
        raise InputError(f"network must be a name, settings or a function (key, outputs) -> model, got {network!r}")
    try:
        made = eqx.filter_eval_shape(lambda x: network(jax.random.key(0), problem.outputs)(x), problem.example[0])
    except Exception as error:
        reason = first_line(error)
        raise InputError(f"network cannot be made and applied to an input of these tasks: {reason}") from error
    if getattr(made, "size", None) != problem.outputs or (problem.classification and made.ndim != 1):
        raise InputError(
            f"network must make a model with {problem.outputs} outputs for these tasks, got outputs of shape "
            f"{getattr(made, 'shape', type(made).__name__)}"
        )
