"""An online experiment, from settings to a loop that is ready to run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from anyshot.adaptation import cross_entropy, squared_error
from anyshot.devices import everywhere
from anyshot.errors import InputError
from anyshot.learners import Recipe, make_learner
from anyshot.online import OnlineLoop, Stream, make_stream
from anyshot.online.stream import check_fits
from anyshot.runs.networks import NETWORKS
from anyshot.runs.settings import Data, Network, OfflineSettings, Settings
from anyshot.tasks import TaskSet, load_tasks


@dataclass(frozen=True)
class Experiment:
    """A method on a stream: all that the result depends on.

    Attributes:
        settings: but the method and the seed.
        learner: the method's name.
        seed: of the stream, the initial weights and every draw; the stream depends on nothing else, so that methods
            with the same seed are given the same tasks and datapoints in the same order.
    """

    settings: Settings
    learner: str
    seed: int

    def __post_init__(self) -> None:
        check_seed(self.seed)

    def describe(self, tasks: TaskSet) -> dict[str, Any]:
        """What is written in the run folder; two runs of the same description give the same bytes."""
        return described(self, tasks)

    def load_tasks(self) -> TaskSet:
        """The task set, on the host."""
        return tasks_of(self.settings.data)

    def loop(self, tasks: TaskSet) -> OnlineLoop:
        """The method in its protocol; what cannot be done is refused here, before any work."""
        check_fits(tasks, self.settings.protocol)
        recipe = recipe_for(self.settings, tasks)
        learner = make_learner(self.learner, recipe, tasks.example())
        return OnlineLoop(learner, self.settings.protocol, recipe.loss, recipe.classification)

    def keys(self) -> dict[str, Key[Array, ""]]:
        """Keys for the stream, the initial state and the draws of the run."""
        stream, start, run = jax.random.split(jax.random.key(self.seed, impl="threefry2x32"), 3)
        return {"stream": stream, "start": start, "run": run}

    def stream(self, tasks: TaskSet) -> Stream:
        """The stream, on the device."""
        return everywhere(make_stream(tasks.on_device(), self.settings.protocol, self.keys()["stream"]))


def check_seed(seed: Any) -> None:
    """Refuse what is no seed."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise InputError(f"seed must be a whole number from 0 to {2**32 - 1}, got {seed!r}")


def described(experiment: Any, tasks: TaskSet) -> dict[str, Any]:
    """Learner, seed, settings and task set of an experiment, as JSON."""
    return {
        "learner": experiment.learner,
        "seed": experiment.seed,
        "fingerprint": tasks.fingerprint,
        "settings": experiment.settings.model_dump(mode="json"),
    }


def tasks_of(data: Data) -> TaskSet:
    """The task set, on the host."""
    return load_tasks(data.name, seed=data.seed, rebuild=False, **data.settings)


def recipe_for(settings: Settings | OfflineSettings, tasks: TaskSet) -> Recipe:
    """Network, loss and numbers for a task set."""
    x, y = tasks.example()
    classification = bool(jnp.issubdtype(y.dtype, jnp.integer))
    outputs = (settings.ways or _classes(tasks)) if classification else int(np.prod(y.shape))
    network = _MakeNetwork(settings.network, x.shape)
    _check_network(settings.network, tasks, x.shape)
    loss = cross_entropy if classification else squared_error
    numbers = {name: getattr(settings.numbers, name) for name in asdict(settings.numbers)}
    return Recipe(network, outputs, loss, classification, settings.most_shots, **numbers)


def _classes(tasks: TaskSet) -> int:
    return 2 if tasks.unit == 2 else int(np.max(tasks.y)) + 1


def _check_network(network: Network, tasks: TaskSet, shape: tuple[int, ...]) -> None:
    if NETWORKS[network.kind].dimensions != len(shape):
        suiting = next((name for name, kind in NETWORKS.items() if kind.dimensions == len(shape)), "none")
        raise InputError(
            f"network.kind is {network.kind!r}, but an example of {tasks.name} has shape {shape}; {suiting!r} suits"
        )


@dataclass(frozen=True)
class _MakeNetwork:
    """Makes the model; equal for equal settings, so that compiled functions are found again."""

    network: Network
    shape: tuple[int, ...]

    def __call__(self, key: Key[Array, ""], outputs: int) -> Any:
        """A model with random weights."""
        return NETWORKS[self.network.kind].made(self.network, self.shape, outputs, key)
